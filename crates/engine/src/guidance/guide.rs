//! A compiled grammar, ready to guide the answers of a request.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use llguidance::{Matcher, TokenParser};

use super::GuideState;
use super::guide_budget::MAX_LEXER_BYTES;

/// Answers of one guide share what they learn about the grammar's words, and its limits.
pub struct Guide {
    /// Has read nothing.
    start: TokenParser,
    shared: Arc<SharedWork>,
}

/// What the answers of a guide have in common.
pub(super) struct SharedWork {
    /// Reads nothing; it knows how large the shared expressions are.
    gauge: TokenParser,
    /// Of all answers.
    tokens: AtomicU64,
}

impl Guide {
    /// Refuses a grammar that allows no first token.
    pub(super) fn new(mut parser: TokenParser) -> Result<Self, String> {
        parser.start_without_prompt();
        let guide = Guide::of(parser);
        guide
            .start()
            .allowed_after(&[])
            .map_err(|problem| format!("no answer can begin with it: {problem}"))?;
        Ok(guide)
    }

    fn of(start: TokenParser) -> Self {
        let shared = SharedWork { gauge: start.clone(), tokens: AtomicU64::new(0) };
        Guide { start, shared: Arc::new(shared) }
    }

    /// The same guide for another request: neither hears of the other, so what an answer may take
    /// never depends on who asked before.
    pub(super) fn for_request(&self) -> Self {
        Guide::of(self.start.deep_clone())
    }

    /// The state of a new answer.
    pub fn start(&self) -> GuideState {
        GuideState::new(Matcher::new(Ok(self.start.clone())), Arc::clone(&self.shared))
    }

    /// Memory of its expressions, about.
    pub(super) fn bytes(&self) -> usize {
        self.start.parser.lexer_stats().num_bytes
    }
}

impl SharedWork {
    /// Counts tokens of an answer; all that were counted.
    pub fn count(&self, tokens: usize) -> u64 {
        self.tokens.fetch_add(tokens as u64, Ordering::Relaxed) + tokens as u64
    }

    pub fn is_too_large(&self) -> bool {
        // The expressions stay locked if the parser panics over another answer.
        let bytes = catch_unwind(AssertUnwindSafe(|| self.gauge.parser.lexer_stats().num_bytes));
        bytes.is_ok_and(|bytes| MAX_LEXER_BYTES < bytes)
    }
}
