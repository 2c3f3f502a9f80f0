//! What a model stores in a slot.

use terrace_device::DType;

/// Of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotShape {
    pub kv_heads: usize,
    pub key_dim: usize,
    pub value_dim: usize,
    /// The type of numbers that are stored as they are.
    pub plain: DType,
}
