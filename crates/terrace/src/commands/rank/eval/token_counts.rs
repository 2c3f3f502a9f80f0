//! Where the tokens of histories were found.

use serde::Serialize;
use terrace_engine::rank::RankOutput;

/// Summed over requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TokenCounts {
    pub history: usize,
    pub device: usize,
    pub host: usize,
    /// Disk and Redis.
    pub lower: usize,
    pub computed: usize,
}

impl TokenCounts {
    pub fn add(&mut self, output: &RankOutput) {
        let RankOutput { history_tokens, cached_tokens, host_tokens, lower_tokens, .. } = *output;
        self.history += history_tokens;
        self.host += host_tokens;
        self.lower += lower_tokens;
        self.device += cached_tokens - host_tokens - lower_tokens;
        self.computed += history_tokens - cached_tokens;
    }

    /// Not computed again.
    pub fn saved(&self) -> usize {
        self.history - self.computed
    }

    /// In percent of the history.
    pub fn share(&self, tokens: usize) -> f64 {
        100.0 * tokens as f64 / self.history.max(1) as f64
    }
}
