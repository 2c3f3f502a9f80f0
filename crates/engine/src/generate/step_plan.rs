//! What the next step does: decided by the scheduler, done by the executor.

use std::ops::Range;

use terrace_cache::{MoveId, PageCopy, PageMove, TierWork};

use crate::generate::seq_id::SeqId;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepPlan {
    /// At most one for each sequence; those with the same kind of cache stand together, the first
    /// kind first. Without any there is no step, and the plan has moves at most.
    pub chunks: Vec<Chunk>,
    /// Pages to copy first. No page is read by one copy and written by another, so their order is
    /// free.
    pub copies: Vec<PageCopy>,
    /// Sequences that complete their prompt for the first time and found a part of it cached.
    pub cached: Vec<CachedPrompt>,
    /// Sequences that lost their turn and their pages.
    pub preempted: Vec<SeqId>,
    /// Pages that leave the device or come back, beside this step and later ones. No chunk uses
    /// them, unless the move is awaited.
    pub moves: Vec<PageMove>,
    /// Moves to the device, of this plan or under way, whose pages the chunk reads: it is the only
    /// one, and each of its layers waits for the bytes that it needs.
    pub awaited: Vec<MoveId>,
    /// Records that are looked up, read or written below the store, beside this step and later
    /// ones.
    pub tier_work: Vec<TierWork>,
}

/// The beginning of a prompt that need not be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedPrompt {
    pub seq: SeqId,
    /// At least one.
    pub tokens: usize,
}

impl StepPlan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        let StepPlan { chunks, moves, preempted, tier_work, .. } = self;
        chunks.is_empty() && moves.is_empty() && preempted.is_empty() && tier_work.is_empty()
    }

    /// The moves that begin before the step, and those that begin after it.
    pub fn awaited_moves(&self) -> (Vec<&PageMove>, Vec<&PageMove>) {
        self.moves.iter().partition(|begun| self.awaited.contains(&begun.id))
    }

    /// Rows of the batch.
    pub fn tokens(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.tokens).sum()
    }
}

/// Tokens `start..start + tokens` of one sequence run in this step. Those before `start` are in
/// their slots, or will be when the step under way ends; these have slots too, which the step
/// fills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub seq: SeqId,
    pub start: usize,
    /// At least one.
    pub tokens: usize,
    pub input: ChunkInput,
    /// Positions of the chunk whose outputs are wanted: of each, one sampled token for every one of
    /// the sequence's [`choices`](crate::Sequence::choices), or its embedding. The last one when
    /// the chunk reaches the last token there is, else none.
    pub outputs: Range<usize>,
    /// The adapter that its rows are computed with; `None` computes the model's own weights.
    pub adapter: Option<AdapterId>,
}

/// Names an adapter of the weights inside one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AdapterId(pub u32);

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
