//! What a client gets.

use super::scored_row::ScoredRow;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankOutput {
    /// Of the candidates, one after the other, with `outputs` each.
    pub logits: Vec<f32>,
    pub outputs: usize,
    /// Of a request that retrieves, the best first.
    pub found: Vec<ScoredRow>,
    /// Tokens of the history in all, and of these cached.
    pub history_tokens: usize,
    pub cached_tokens: usize,
    /// Of the cached ones, those that came from host memory, and from the levels below.
    pub host_tokens: usize,
    pub lower_tokens: usize,
    /// Ids that no table had.
    pub unknown_ids: usize,
    /// Whether what was cached of the user was of another history.
    pub was_edited: bool,
    pub times: StageTimes,
}

impl RankOutput {
    /// The logits of each candidate.
    pub fn candidates(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.logits.chunks_exact(self.outputs.max(1))
    }
}

/// How long a request was where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Until nobody else had its user and a step had room.
    pub queued_us: u64,
    /// Until lower tiers had given what they have.
    pub fetched_us: u64,
    pub computed_us: u64,
}
