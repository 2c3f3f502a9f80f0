//! A score that a program brings along: what it sees of a head, and how it is asked.
//!
//! It is code of the host, so the CPU's ops alone can ask it; a rule's built-in scores are words of
//! its [`SlotRule`](crate::SlotRule) and run everywhere.

use std::fmt;

/// Takes what a chunk attended to into the scores of one head; those with the lowest leave first.
///
/// Called from several threads, each with a head of its own. A score depends on what is given here
/// alone, or a sequence would depend on its batch-mates.
pub trait SlotScorer: fmt::Debug + Send + Sync {
    fn score(&self, head: &HeadSlots<'_>, scores: &mut [f32]);
}

/// The slots of one head after a chunk; every list is as long as the slots that are filled.
#[derive(Clone, Copy, Debug)]
pub struct HeadSlots<'a> {
    /// Position of each slot's token in its sequence.
    pub positions: &'a [i32],
    /// How much the chunk's queries attended to each slot: summed over them, the mean over the
    /// query heads that share this head.
    pub weights: &'a [f32],
    /// L2 norm of each slot's value; empty unless the rule asks for it.
    pub value_norms: &'a [f32],
    /// What storing each slot's key and value changed; empty unless the rule asks for it.
    pub errors: &'a [f32],
    /// Tokens of the chunk.
    pub chunk_tokens: usize,
    /// Tokens of the sequence so far, the chunk's with them.
    pub seen_tokens: usize,
}
