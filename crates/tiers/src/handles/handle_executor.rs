//! Who carries out the work of the store of handles: threads, or a simulation.

use super::handle_work::{HandleDone, HandleWork};
use crate::{Wait, Wake};

/// Carries out work beside the steps. Starting never blocks, and results come in any order.
pub trait HandleExecutor: Send {
    fn start(&mut self, work: HandleWork);

    /// What was done since the last call. With [`Wait::ForOne`] some is under way, and it waits
    /// until one of it is done.
    fn done(&mut self, wait: Wait) -> Vec<HandleDone>;

    /// From now on `wake` is called when work is done.
    fn wake_by(&mut self, wake: Wake);
}
