//! How large the steps of an executor can be.

/// Bounds fixed when the executor is made; all memory is taken from them.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankShape {
    pub max_step_tokens: usize,
    pub max_users: usize,
    pub max_history_tokens: usize,
    pub max_candidates: usize,
    pub pages: usize,
}
