//! Who carries out the work of the lower tiers: threads, or a simulation.

use std::sync::Arc;

use terrace_cache::{TierDone, TierWork};

use crate::Wait;

/// Called when work is done, from any thread.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Carries out work beside the steps. Starting never blocks, and results come in any order.
pub trait TierExecutor: Send {
    fn start(&mut self, work: TierWork);

    /// What was done since the last call. With [`Wait::ForOne`] some is under way, and it waits
    /// until one of it is done.
    fn done(&mut self, wait: Wait) -> Vec<TierDone>;

    /// From now on `wake` is called when work is done.
    fn wake_by(&mut self, wake: Wake);
}
