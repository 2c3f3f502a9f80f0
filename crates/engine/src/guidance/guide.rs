//! A compiled grammar, ready to guide the outputs of a request.

use std::sync::Arc;

use llguidance::{Matcher, TokenParser};

use super::guide_state::GuideState;
use super::shared_work::SharedWork;

/// Outputs of one guide share what they learn about the grammar's words, and its limits.
pub struct Guide {
    /// Has read nothing.
    start: TokenParser,
    shared: Arc<SharedWork>,
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
        let shared = SharedWork::new(start.clone());
        Guide { start, shared: Arc::new(shared) }
    }

    /// The same guide for another request: neither hears of the other, so what an output may take
    /// never depends on who asked before.
    pub(super) fn for_request(&self) -> Self {
        Guide::of(self.start.deep_clone())
    }

    /// The state of a new output.
    pub fn start(&self) -> GuideState {
        GuideState::new(Matcher::new(Ok(self.start.clone())), Arc::clone(&self.shared))
    }

    /// Memory of its expressions, about.
    pub(super) fn bytes(&self) -> usize {
        self.start.parser.lexer_stats().num_bytes
    }
}
