//! What the outputs of a guide have in common.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use llguidance::TokenParser;

use super::guide_limits::MAX_LEXER_BYTES;

pub(super) struct SharedWork {
    /// Reads nothing; it knows how large the shared expressions are.
    gauge: TokenParser,
    /// Of all outputs.
    tokens: AtomicU64,
}

impl SharedWork {
    pub(super) fn new(gauge: TokenParser) -> Self {
        SharedWork { gauge, tokens: AtomicU64::new(0) }
    }

    /// Counts tokens of an output; all that were counted.
    pub fn count(&self, tokens: usize) -> u64 {
        self.tokens.fetch_add(tokens as u64, Ordering::Relaxed) + tokens as u64
    }

    pub fn is_too_large(&self) -> bool {
        // The expressions stay locked if the parser panics over another output.
        let bytes = catch_unwind(AssertUnwindSafe(|| self.gauge.parser.lexer_stats().num_bytes));
        bytes.is_ok_and(|bytes| MAX_LEXER_BYTES < bytes)
    }
}
