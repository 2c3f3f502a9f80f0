//! What a slot costs.

use terrace_device::DType;

use super::error::PolicyError;
use super::kv_cache_spec::KvCacheSpec;

/// What a model stores in a slot of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotShape {
    pub kv_heads: usize,
    pub key_dim: usize,
    pub value_dim: usize,
    /// The type of numbers that are stored as they are.
    pub plain: DType,
}

/// Bytes of one slot of one layer, for all its heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotBytes {
    pub keys: usize,
    pub values: usize,
    /// Position, score and what else the rule wants to know.
    pub state: usize,
}

impl SlotBytes {
    pub fn total(&self) -> usize {
        self.keys + self.values + self.state
    }
}

impl KvCacheSpec {
    pub fn slot_bytes(&self, shape: &SlotShape) -> Result<SlotBytes, PolicyError> {
        let rule = self.policy.rule(self.cache_lengths[0])?;
        // Positions of other rules follow from the slots' numbers.
        let scored = 2 * usize::from(rule.wants_weights());
        let extras = [rule.wants_value_norms(), rule.wants_errors()].map(usize::from);
        let numbers = scored + extras[0] + extras[1];
        Ok(SlotBytes {
            keys: shape.kv_heads * self.keys.row_bytes(shape.key_dim, shape.plain),
            values: shape.kv_heads * self.values.row_bytes(shape.value_dim, shape.plain),
            state: shape.kv_heads * numbers * size_of::<f32>(),
        })
    }

    /// Bytes of one sequence in `layers` layers, however long it gets.
    pub fn sequence_bytes(&self, shape: &SlotShape, layers: usize) -> Result<usize, PolicyError> {
        let slots: usize = (0..layers).map(|layer| self.slots(layer)).sum();
        Ok(slots * self.slot_bytes(shape)?.total())
    }
}
