//! Answers that follow a grammar: which tokens may come next, given those that came.
//!
//! A [`Grammar`] is what a user asks for. A model's [`GuideMaker`] turns it into a [`Guide`], which
//! all answers of a request share; each answer has a [`GuideState`]. Parsing is the `llguidance`
//! crate's work, and no other folder knows it.
//!
//! Invariant: what is allowed is a function of the grammar and of the answer's tokens. A state
//! only remembers how far it has read, so a preempted answer goes on as if nothing had happened.

mod allowed_tokens;
mod grammar;
mod guide;
mod guide_maker;
mod guide_state;
#[cfg(test)]
mod tests;
mod token_texts;

pub use allowed_tokens::AllowedTokens;
pub use grammar::{Grammar, GrammarRule};
pub use guide::Guide;
pub use guide_maker::GuideMaker;
pub use guide_state::GuideState;
