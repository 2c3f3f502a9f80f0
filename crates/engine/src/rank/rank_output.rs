//! What a client gets.

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankOutput {
    /// For each candidate its logits.
    pub logits: Vec<Vec<f32>>,
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

/// How long a request was where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Until nobody else had its user and a step had room.
    pub queued_us: u64,
    /// Until lower tiers had given what they have.
    pub fetched_us: u64,
    pub computed_us: u64,
}
