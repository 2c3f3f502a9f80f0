//! What the next step does: decided by the scheduler, done by the executor.

use terrace_cache::PageCopy;

use crate::sequence::SeqId;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepPlan {
    /// At most one for each sequence.
    pub chunks: Vec<Chunk>,
    /// For each kv group, pages to copy before anything else. No page is read by one copy and
    /// written by another, so their order is free.
    pub copies: Vec<Vec<PageCopy>>,
    /// Sequences that lost their turn and their pages.
    pub preempted: Vec<SeqId>,
}

impl StepPlan {
    /// Rows of the batch.
    pub fn tokens(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.tokens).sum()
    }
}

/// Tokens `start..start + tokens` of one sequence run in this step. Those before `start` are in
/// their slots; these have slots too, which the step fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub seq: SeqId,
    pub start: usize,
    /// At least one.
    pub tokens: usize,
    /// The chunk reaches the last known token, so the next one is sampled: one for each of the
    /// sequence's [`choices`](crate::Sequence::choices).
    pub sample: bool,
}

impl Chunk {
    pub fn end(&self) -> usize {
        self.start + self.tokens
    }
}
