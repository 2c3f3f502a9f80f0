//! What a GPU's executor may take.

/// Bounds fixed when the executor is made; all memory is taken from them.
#[derive(Clone, Copy, Debug)]
pub struct CudaExecutorShape {
    /// Tokens of a step.
    pub max_step_tokens: usize,
    /// Sequences of a step.
    pub max_seqs: usize,
    /// Pages of the longest sequence, in all its groups.
    pub seq_pages: usize,
    /// Pages wanted; fewer are taken when the device's memory says so, but not less than the least.
    pub pages: usize,
    pub least_pages: usize,
    pub page_bytes: usize,
    /// Bytes of the device for what is loaded later.
    pub arena_bytes: usize,
}
