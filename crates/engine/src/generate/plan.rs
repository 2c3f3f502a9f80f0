//! What the next step does: decided by the scheduler, done by the executor.

use terrace_cache::{PageCopy, PageId};

use crate::generate::seq_id::SeqId;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepPlan {
    /// At least one when the step is started, at most one for each sequence; those with the same
    /// kind of cache stand together, the first kind first.
    pub chunks: Vec<Chunk>,
    /// Pages to copy when `moves_out` are done. No page is read by one copy and written by another,
    /// so their order is free.
    pub copies: Vec<PageCopy>,
    /// Sequences that run for the first time and found a part of their prompt in the prefix cache.
    pub cached: Vec<CachedPrompt>,
    /// Sequences that lost their turn and their pages.
    pub preempted: Vec<SeqId>,
    /// Of those, pages whose content cannot be computed again: they are saved before anything else.
    pub moves_out: Vec<PageMove>,
    /// Pages that take what was saved of their sequence, before anything is computed.
    pub moves_in: Vec<PageMove>,
}

/// The beginning of a prompt that need not be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedPrompt {
    pub seq: SeqId,
    /// At least one.
    pub tokens: usize,
}

/// The pages of a sequence that hold a token, group after group, in the order of their tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageMove {
    pub seq: SeqId,
    pub pages: Vec<PageId>,
}

impl StepPlan {
    /// Rows of the batch.
    pub fn tokens(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.tokens).sum()
    }
}

/// Tokens `start..start + tokens` of one sequence run in this step. Those before `start` are in
/// their slots, or will be when the step under way ends; these have slots too, which the step
/// fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub seq: SeqId,
    pub start: usize,
    /// At least one.
    pub tokens: usize,
    pub input: ChunkInput,
    /// The chunk reaches the last token there is, so the one at [`end`](Chunk::end) is sampled: one
    /// for each of the sequence's [`choices`](crate::Sequence::choices).
    pub sample: bool,
}

/// Where a chunk's token ids come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkInput {
    /// They are in [`Sequence::tokens`](crate::Sequence::tokens).
    Known,
    /// The chunk has one token, which the step before samples for this sequence. That step is
    /// under way, so the id is still on the device only. The sequence has one choice, and the
    /// executor [`samples_on_device`](crate::Executor::samples_on_device).
    SampledBefore,
}

impl Chunk {
    pub fn end(&self) -> usize {
        self.start + self.tokens
    }
}
