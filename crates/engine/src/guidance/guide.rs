//! A compiled grammar, ready to guide any number of answers.

use llguidance::{Matcher, TokenParser};

use super::GuideState;

pub struct Guide {
    /// Has read nothing. Copies share what they learn about the grammar's words.
    start: Matcher,
}

impl Guide {
    /// Refuses a grammar that allows no first token.
    pub(super) fn new(parser: TokenParser) -> Result<Self, String> {
        let guide = Guide { start: Matcher::new(Ok(parser)) };
        guide
            .start()
            .allowed_after(&[])
            .map_err(|problem| format!("no answer can begin with it: {problem}"))?;
        Ok(guide)
    }

    /// The state of a new answer.
    pub fn start(&self) -> GuideState {
        GuideState::new(self.start.clone())
    }
}
