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
    /// Pages wanted; fewer are taken when the budget says so.
    pub pages: usize,
    pub page_bytes: usize,
    /// Pages of the store.
    pub store_pages: usize,
    pub budget: MemoryBudget,
}

/// How much of the device's memory there is to take.
#[derive(Clone, Copy, Debug)]
pub struct MemoryBudget {
    /// Bytes of the device that may be in use when all is taken.
    pub allowed_bytes: usize,
    /// Bytes of weights, which are in place already; for the message when the rest is too little.
    pub weight_bytes: usize,
}
