//! What an engine reports about itself.

/// Counters and gauges of one engine, as of its last step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineStats {
    pub waiting: usize,
    pub running: usize,
    pub pages_total: usize,
    /// Pages no sequence holds; those kept for their content are among them.
    pub pages_free: usize,
    /// Pages kept only because their content may be asked for again.
    pub pages_cached: usize,
    /// Steps started.
    pub steps: u64,
    pub prompt_tokens: u64,
    pub generated_tokens: u64,
    /// Prompt tokens that were looked up in, and found in, the prefix index.
    pub prefix_tokens_asked: u64,
    pub prefix_tokens_hit: u64,
    pub preemptions: u64,
    /// Preempted sequences whose pages were swapped out, for a policy had decided in them.
    pub swaps_out: u64,
    /// Sequences whose pages came back from the store.
    pub swaps_in: u64,
    pub store_pages_total: usize,
    /// Those kept for their content are among them.
    pub store_pages_free: usize,
    /// Pages of the store kept only because their content may be asked for again.
    pub store_pages_cached: usize,
    /// Pages copied to the store ahead of need, and from there for a prefix.
    pub pages_demoted: u64,
    pub pages_promoted: u64,
    /// Pages written to, and read from, the tiers below the store.
    pub tier_pages_written: u64,
    pub tier_pages_read: u64,
    /// Conversations whose pages are kept by name.
    pub sessions: usize,
}
