//! What a step computes, as data.

use std::ops::Range;

use terrace_cache::{PageMove, TierWork};

use super::rank_job::JobId;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankPlan {
    pub chunks: Vec<RankChunk>,
    /// Pages that come from the host, which the step waits for.
    pub promotions: Vec<PageMove>,
    /// Copies to the host, beside the step.
    pub demotions: Vec<PageMove>,
    /// Work of lower tiers, beside the step.
    pub tier_work: Vec<TierWork>,
}

/// Some new tokens of a user's history, and some candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankChunk {
    pub job: JobId,
    /// Positions of the history; those before are in the pages.
    pub history: Range<usize>,
    pub candidates: Range<usize>,
}

impl RankPlan {
    pub fn is_empty(&self) -> bool {
        let no_moves = self.promotions.is_empty() && self.demotions.is_empty();
        no_moves && self.chunks.is_empty() && self.tier_work.is_empty()
    }
}

impl RankChunk {
    pub fn tokens(&self) -> usize {
        self.history.len() + self.candidates.len()
    }
}
