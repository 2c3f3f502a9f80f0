//! How far an answer has come in its grammar.

use std::sync::{Arc, Mutex};

use llguidance::Matcher;

use super::AllowedTokens;
use crate::request::TokenId;

pub struct GuideState {
    reading: Mutex<Reading>,
}

struct Reading {
    matcher: Matcher,
    /// Tokens of the answer that the matcher has seen.
    read: usize,
    /// What may follow them, once somebody has asked.
    allowed: Option<Arc<AllowedTokens>>,
}

impl GuideState {
    pub(super) fn new(matcher: Matcher) -> Self {
        GuideState { reading: Mutex::new(Reading { matcher, read: 0, allowed: None }) }
    }

    /// Whether the grammar can tell nothing any more.
    pub fn has_failed(&self) -> bool {
        self.reading.lock().expect("the matcher catches its panics").matcher.is_error()
    }

    /// What may follow `output`, which goes on from what was asked before. When the grammar is
    /// complete, that is the tokens that end an answer.
    ///
    /// An error if the grammar takes more time or memory than it may, or cannot go on at all.
    pub fn allowed_after(&self, output: &[TokenId]) -> Result<Arc<AllowedTokens>, String> {
        let mut reading = self.reading.lock().expect("the matcher catches its panics");
        let reading = &mut *reading;
        assert!(reading.read <= output.len(), "{} of {} tokens", reading.read, output.len());
        if reading.read < output.len() {
            reading.allowed = None;
            reading.matcher.consume_tokens(&output[reading.read..]).map_err(told)?;
            reading.read = output.len();
        }
        if let Some(allowed) = &reading.allowed {
            return Ok(Arc::clone(allowed));
        }
        let bits = reading.matcher.compute_mask_or_eos().map_err(told)?;
        let allowed = Arc::new(AllowedTokens::new(bits));
        reading.allowed = Some(Arc::clone(&allowed));
        Ok(allowed)
    }
}

/// The first line: the others are about the parser's own state.
fn told(error: impl std::fmt::Display) -> String {
    let error = error.to_string();
    format!("the grammar cannot go on: {}", error.lines().next().unwrap_or_default())
}
