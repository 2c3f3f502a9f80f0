//! The last requests that finished, so that a handle can be made of one afterwards.
//!
//! Tokens alone: what is missing of their pages then is computed again.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::generate::past::Past;
use crate::generate::request::RequestId;

/// Each of them is tokens of 4 bytes: 16 MiB at most.
const MAX_RESPONSES: usize = 1024;
const MAX_TOKENS: usize = 4 << 20;

#[derive(Default)]
pub(crate) struct RecentResponses {
    /// The oldest first.
    responses: VecDeque<(RequestId, Arc<Past>)>,
    tokens: usize,
}

impl RecentResponses {
    pub(crate) fn push(&mut self, id: RequestId, past: Past) {
        self.tokens += past.tokens.len();
        self.responses.push_back((id, Arc::new(past)));
        while MAX_RESPONSES < self.responses.len() || MAX_TOKENS < self.tokens {
            let Some((_, oldest)) = self.responses.pop_front() else { break };
            self.tokens -= oldest.tokens.len();
        }
    }

    pub(crate) fn get(&self, id: RequestId) -> Option<Arc<Past>> {
        let found = self.responses.iter().rev().find(|(known, _)| *known == id);
        found.map(|(_, past)| Arc::clone(past))
    }

    pub(crate) fn check(&self) {
        let tokens: usize = self.responses.iter().map(|(_, past)| past.tokens.len()).sum();
        assert_eq!(tokens, self.tokens, "tokens of recent responses");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::past::Origin;

    fn past(tokens: usize) -> Past {
        Past {
            id: None,
            tokens: vec![0; tokens],
            row_kind_ends: vec![tokens],
            scaled_end: usize::MAX,
            cache: None,
            cache_salt: String::new(),
            origin: Origin::default(),
            file: None,
        }
    }

    #[test]
    fn the_oldest_make_way_by_number_and_by_tokens() {
        let mut recent = RecentResponses::default();
        for id in 0..MAX_RESPONSES as u64 + 2 {
            recent.push(RequestId(id), past(2));
            recent.check();
        }
        assert!(recent.get(RequestId(1)).is_none());
        assert_eq!(recent.get(RequestId(2)).map(|past| past.tokens.len()), Some(2));
        recent.push(RequestId(5000), past(MAX_TOKENS));
        recent.check();
        assert!(recent.get(RequestId(1000)).is_none());
        recent.push(RequestId(5001), past(1));
        assert!(recent.get(RequestId(5000)).is_none() && recent.get(RequestId(5001)).is_some());
        recent.push(RequestId(5002), past(MAX_TOKENS + 1));
        recent.check();
        assert!(recent.get(RequestId(5002)).is_none());
    }
}
