//! What an engine's thread reports to its handles.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use terrace_tiers::HandleId;
use tokio::sync::watch;

use crate::generate::engine_stats::EngineStats;

pub(crate) struct Board {
    pub(crate) front: Mutex<Front>,
    /// Steps started; written when one ends.
    pub(crate) steps: watch::Sender<u64>,
    pub(crate) is_running: AtomicBool,
}

pub(crate) struct Front {
    /// As of the last step.
    pub(crate) stats: EngineStats,
    /// Requests sent to the thread that `stats` does not know yet.
    pub(crate) unseen: usize,
    pub(crate) next_request: u64,
    pub(crate) is_accepting: bool,
    /// Names whose pages are in memory.
    pub(crate) resident: Vec<HandleId>,
}
