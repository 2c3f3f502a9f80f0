//! How much work following a grammar may be.
//!
//! All limits count what the parser does, never time: a busy machine fails no good grammar, and
//! the same answer always comes as far.

use llguidance::api::ParserLimits;
use llguidance::earley::ParserStats;

use super::GrammarFault;

/// Steps of the expressions for one token, some 20 ms. Ordinary schemas take up to 20,000, for a
/// `uri` with a pattern.
pub(super) const MAX_TOKEN_STEPS: u64 = 100_000;
/// Items of the rules for one token. Ordinary schemas take up to 9,000, for an object of a hundred
/// optional properties. Time grows with the square in ambiguous grammars: 50,000 take a second.
pub(super) const MAX_TOKEN_ITEMS: usize = 20_000;
/// Items at one place of the text.
pub(super) const MAX_ITEMS_IN_ROW: usize = 2_000;
/// A text of bounded length takes four for each of its characters.
pub(super) const MAX_LEXER_STATES: usize = 50_000;
/// Of one request's guide. A text of bounded length takes 4 to 7 kB for each of its characters.
pub(super) const MAX_LEXER_BYTES: usize = 48 << 20;
/// Symbols of a grammar; the largest schema that passes the limit of bytes has fewer.
const MAX_GRAMMAR_SIZE: usize = 100_000;

/// Steps that the answers of a request may take together: these, and so many for each token.
/// Ordinary schemas take up to 3,000 for each, a JSON object without a schema 7.
pub(super) const BURST_STEPS: u64 = 1_000_000;
pub(super) const STEPS_PER_TOKEN: u64 = 5_000;
/// Items that an answer may take: these, and so many for each token. Ordinary schemas take up to
/// 600 for each, a programming language's expressions 1,400.
pub(super) const BURST_ITEMS: usize = 100_000;
pub(super) const ITEMS_PER_TOKEN: usize = 2_000;

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

/// What one answer has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WorkDone {
    /// Of all answers that share the expressions, since this one began.
    pub steps: u64,
    pub items: usize,
}

impl WorkDone {
    pub fn add(&mut self, last: &ParserStats) {
        self.steps += last.lexer_cost;
        self.items += last.all_items;
    }

    /// `tokens`: of this answer. `all_tokens`: of all that share the expressions.
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
