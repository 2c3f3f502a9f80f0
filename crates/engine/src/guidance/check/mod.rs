//! Grammars are tried in a process of their own before they come into this one.
//!
//! The compiler has steps that no fuel bounds: an intersection of twenty patterns takes minutes
//! and gigabytes inside one of them, and a thread cannot be stopped. A process can: it ends when it
//! takes too much time or memory, when its request is cancelled, and when this process ends. What
//! it has accepted is compiled again here, which takes no more than it took there.

mod check_loop;
mod check_process;
mod checker;
mod frame;

use std::ffi::OsString;
use std::time::Duration;

pub use check_loop::check_grammars;
pub(super) use checker::{GrammarChecker, Refusal};

/// The command that checks grammars: it must do what [`check_grammars`] does, under the limits
/// below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrammarCheck {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Grammars of a model that are compiled at the same time.
    pub at_once: usize,
    /// How long a grammar waits for its turn.
    pub place_time: Duration,
}

impl GrammarCheck {
    pub fn new(command: Vec<OsString>) -> Self {
        GrammarCheck { command, at_once: 2, place_time: Duration::from_secs(5) }
    }
}

/// What the process sets itself as its limits, and the parent names in its refusals.
pub const CHECK_CPU_SECONDS: u64 = 2;
/// Beyond what the vocabulary takes.
pub const CHECK_MEMORY_BYTES: u64 = 256 << 20;
/// By the clock on the wall, for a machine so busy that two seconds of work take so long.
const CHECK_WALL_TIME: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
