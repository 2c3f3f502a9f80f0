//! Why a grammar that was compiled cannot be followed to the end of an output.

use std::fmt;

use super::guide_limits::{
    BURST_ITEMS, BURST_STEPS, ITEMS_PER_TOKEN, MAX_ITEMS_IN_ROW, MAX_LEXER_BYTES, MAX_LEXER_STATES,
    MAX_TOKEN_ITEMS, MAX_TOKEN_STEPS, STEPS_PER_TOKEN,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrammarFault {
    /// Its expressions take too many steps for one token.
    TokenSteps,
    /// Its expressions take too many steps for the whole output.
    AnswerSteps,
    /// Its expressions have too many states.
    States,
    /// Its expressions take too much memory.
    Memory,
    /// Its rules can be read in too many ways for one token.
    TokenItems,
    /// Its rules can be read in too many ways for the whole output.
    AnswerItems,
    /// Nothing can come next.
    DeadEnd,
}

impl GrammarFault {
    /// What the parser's message means.
    pub(super) fn of_message(message: &str) -> Self {
        let says = |words: &str| message.contains(words);
        match () {
            () if says("too many expressions") => GrammarFault::TokenSteps,
            () if says("too many states") => GrammarFault::States,
            () if says("Too many items") || says("Current row has") => GrammarFault::TokenItems,
            () => GrammarFault::DeadEnd,
        }
    }
}

impl fmt::Display for GrammarFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GrammarFault::TokenSteps => {
                write!(f, "its expressions take more than {MAX_TOKEN_STEPS} steps for one token")
            }
            GrammarFault::AnswerSteps => write!(
                f,
                "its expressions take more than {BURST_STEPS} steps and {STEPS_PER_TOKEN} for \
                 each token"
            ),
            GrammarFault::States => {
                write!(f, "its expressions have more than {MAX_LEXER_STATES} states")
            }
            GrammarFault::Memory => {
                write!(f, "its expressions take more than {} MiB", MAX_LEXER_BYTES >> 20)
            }
            GrammarFault::TokenItems => write!(
                f,
                "its rules can be read in more than {MAX_ITEMS_IN_ROW} ways at once, or \
                 {MAX_TOKEN_ITEMS} for one token"
            ),
            GrammarFault::AnswerItems => write!(
                f,
                "its rules can be read in more than {BURST_ITEMS} ways and {ITEMS_PER_TOKEN} for \
                 each token"
            ),
            GrammarFault::DeadEnd => f.write_str("it leads nowhere from here"),
        }
    }
}
