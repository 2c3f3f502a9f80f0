//! How much work following a grammar may be.
//!
//! All limits count what the parser does, never time: a busy machine fails no good grammar, and
//! the same output always comes as far.

use llguidance::api::ParserLimits;
use llguidance::earley::ParserStats;

use super::grammar_fault::GrammarFault;
use super::guide_limits::{
    BURST_ITEMS, BURST_STEPS, ITEMS_PER_TOKEN, MAX_GRAMMAR_SIZE, MAX_ITEMS_IN_ROW,
    MAX_LEXER_STATES, MAX_TOKEN_ITEMS, MAX_TOKEN_STEPS, STEPS_PER_TOKEN,
};

pub(super) fn parser_limits() -> ParserLimits {
    ParserLimits {
        max_items_in_row: MAX_ITEMS_IN_ROW,
        step_lexer_fuel: MAX_TOKEN_STEPS,
        step_max_items: MAX_TOKEN_ITEMS,
        max_lexer_states: MAX_LEXER_STATES,
        max_grammar_size: MAX_GRAMMAR_SIZE,
        // It would run expressions over the whole vocabulary, without a limit of time.
        precompute_large_lexemes: false,
        verbose_errors: false,
        ..ParserLimits::default()
    }
}

/// What one output has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WorkDone {
    /// Of all outputs that share the expressions, since this one began.
    pub steps: u64,
    pub items: usize,
}

impl WorkDone {
    pub fn add(&mut self, last: &ParserStats) {
        self.steps += last.lexer_cost;
        self.items += last.all_items;
    }

    /// `tokens`: of this output. `all_tokens`: of all that share the expressions.
    pub fn check(&self, tokens: usize, all_tokens: u64) -> Result<(), GrammarFault> {
        let limit = WorkDone::limit(tokens, all_tokens);
        if limit.steps < self.steps {
            return Err(GrammarFault::AnswerSteps);
        }
        if limit.items < self.items {
            return Err(GrammarFault::AnswerItems);
        }
        Ok(())
    }

    pub fn limit(tokens: usize, all_tokens: u64) -> Self {
        WorkDone {
            steps: BURST_STEPS + STEPS_PER_TOKEN * all_tokens,
            items: BURST_ITEMS + ITEMS_PER_TOKEN * tokens,
        }
    }
}
