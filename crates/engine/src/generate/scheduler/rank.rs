//! Who goes first.

use crate::generate::request::{Priority, RequestId};

/// Smaller goes first. Fixed when the request arrives, although waiting requests age: each
/// `aging_steps` of waiting count as one priority more, and as all age alike, their order never
/// changes. A request of priority `p` is therefore overtaken by one of priority `p + d` only when
/// that one arrives at most `d * aging_steps` steps after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// The step at which a request of priority 0 would have had to arrive.
    step: i64,
    request: RequestId,
    choice: usize,
}

impl Rank {
    pub(crate) fn new(
        arrival_step: u64,
        priority: Priority,
        aging_steps: u32,
        request: RequestId,
    ) -> Self {
        let step = arrival_step as i64 - i64::from(priority.0) * i64::from(aging_steps);
        Rank { step, request, choice: 0 }
    }

    /// The rank of another output to the same request.
    pub(crate) fn with_choice(self, choice: usize) -> Rank {
        Rank { choice, ..self }
    }
}
