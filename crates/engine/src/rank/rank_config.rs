//! How an engine that ranks is set up.

use super::truncation::Truncate;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankConfig {
    /// Tokens of a page.
    pub page_tokens: usize,
    /// Bytes of the device's pages.
    pub kv_bytes: usize,
    /// Most tokens, and most users, of a step.
    pub max_step_tokens: usize,
    pub max_users: usize,
    /// Most requests that wait.
    pub max_waiting: usize,
    pub truncate: Truncate,
    /// Worker threads of the CPU.
    pub threads: usize,
}

impl Default for RankConfig {
    fn default() -> Self {
        RankConfig {
            page_tokens: 64,
            kv_bytes: 1 << 30,
            max_step_tokens: 8192,
            max_users: 64,
            max_waiting: 4096,
            truncate: Truncate::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}
