//! What the manifest of golden data says about each kind of case that ops can be held to.

use serde::Deserialize;
use serde_json::{Map, Value};

/// One cache over a batch of rows, call by call.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PolicyRun {
    pub inputs: String,
    pub batch_size: usize,
    pub n_head: usize,
    pub n_query_groups: usize,
    pub head_size: usize,
    pub cache_name: String,
    pub cache_length: usize,
    pub chunk_sizes: Vec<usize>,
    pub sdpa_scale: f32,
    #[serde(default)]
    pub requantize_after_every_step: bool,
    #[serde(default)]
    pub cache_kwargs: Map<String, Value>,
    /// Of `smart-lastrec`: slots of each row that stay, after each call.
    #[serde(default)]
    pub protected_after_each_step: Vec<ProtectedSlots>,
    /// Among others, the arguments of `smart-lastrec`.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ProtectedSlots {
    pub start: Vec<Option<usize>>,
}

/// Attention over slots in any order.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct AttentionCase {
    pub batch_size: usize,
    pub n_head: usize,
    pub n_query_groups: usize,
    pub head_size: usize,
    pub q_len: usize,
    pub kv_len: usize,
    pub input_pos: usize,
    pub scale: f32,
    pub sliding_window_size: usize,
}

/// Rows and what they read as once they are stored.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct QuantiserCase {
    pub name: String,
    pub blocks_over_heads: bool,
}
