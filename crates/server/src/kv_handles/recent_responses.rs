//! Which of the engine's requests made a response, by the response's id.
//!
//! Only responses with one output are known here, and only the newest: as many as an engine
//! remembers of its own. What they are made of is the engine's; this is the way to it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use terrace_engine::RequestId;

use crate::middleware::Caller;

const MAX_RESPONSES: usize = 1_024;

#[derive(Default)]
pub struct RecentResponses {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    responses: HashMap<String, RecentResponse>,
    oldest_first: VecDeque<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentResponse {
    pub caller: Caller,
    /// The model's name.
    pub model: String,
    pub request: RequestId,
}

impl RecentResponses {
    /// Under an id that no other has; the oldest is forgotten for it.
    pub fn insert(&self, id: &str, response: RecentResponse) {
        let mut known = self.known();
        if known.oldest_first.len() == MAX_RESPONSES
            && let Some(oldest) = known.oldest_first.pop_front()
        {
            known.responses.remove(&oldest);
        }
        known.oldest_first.push_back(id.to_owned());
        known.responses.insert(id.to_owned(), response);
    }

    /// One of the caller's own.
    pub fn get(&self, id: &str, caller: Caller) -> Option<RecentResponse> {
        self.known().responses.get(id).filter(|found| found.caller == caller).cloned()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no panics while it is held")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_known_to_their_callers() {
        let recent = RecentResponses::default();
        let caller = |index| Caller(Some(index));
        for index in 0..MAX_RESPONSES + 1 {
            let request = RequestId(index as u64);
            let response = RecentResponse { caller: caller(0), model: "m".to_owned(), request };
            recent.insert(&format!("r{index}"), response);
        }
        assert_eq!(recent.get("r0", caller(0)), None, "the oldest is forgotten");
        assert_eq!(recent.get("r1", caller(0)).map(|found| found.request), Some(RequestId(1)));
        assert_eq!(recent.get("r1", caller(1)), None, "another's");
        assert_eq!(recent.get("r1", Caller(None)), None, "another's");
    }
}
