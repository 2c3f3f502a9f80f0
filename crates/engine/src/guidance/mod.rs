//! Outputs that follow a grammar: which tokens may come next, given those that came.
//!
//! A [`Grammar`] is what a user asks for. A model's [`GuideMaker`] turns it into a [`Guide`], which
//! all outputs of a request share; each output has a [`GuideState`]. Parsing is the `llguidance`
//! crate's work, and no other folder knows it.
//!
//! Grammars are untrusted. What can be seen to explode is refused unread
//! (`grammar_limits`), the rest is compiled in a process with limits first (`check`), and what
//! following it may take is counted (`guide_budget`).
//!
//! Invariant: what is allowed is a function of the grammar and of the output's tokens. A state
//! only remembers how far it has read, so a preempted output goes on as if nothing had happened.

mod allowed_tokens;
mod branch_count;
mod check;
mod compiler;
mod gbnf;
mod grammar;
mod grammar_fault;
mod grammar_limits;
mod guide;
mod guide_budget;
mod guide_cache;
mod guide_limits;
mod guide_maker;
mod guide_state;
mod intersections;
mod json_schema;
mod lark_text;
mod one_of;
mod schema_walk;
mod shared_work;
#[cfg(test)]
mod tests;
mod token_texts;

pub use allowed_tokens::AllowedTokens;
pub use check::{CHECK_CPU_SECONDS, CHECK_MEMORY_BYTES, GrammarCheck, check_grammars};
pub use gbnf::{gbnf_to_lark, is_gbnf};
pub use grammar::{Grammar, GrammarRule};
pub use grammar_fault::GrammarFault;
pub use guide::Guide;
pub use guide_maker::GuideMaker;
pub use guide_state::GuideState;
pub use json_schema::{CHECKED_FORMATS, close_objects};
