//! What a click-through network takes and gives: what tables and requests must fit.

use terrace_kernels::Combiner;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CtrInputs {
    /// Dense features of a sample; may be 0.
    pub dense_dim: usize,
    /// In the order of the embedding layers, which is the order of the sparse files.
    pub tables: Vec<CtrTable>,
}

/// An embedding layer, and the part of a request that it looks up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CtrTable {
    /// The layer's top.
    pub name: String,
    /// Feature slots of a sample.
    pub slots: usize,
    /// Numbers of an embedding row.
    pub dim: usize,
    pub combiner: Combiner,
    /// Keys that one slot may have, as the network says.
    pub keys_per_slot_most: usize,
    /// Keys that all slots of a sample may have together.
    pub keys_per_sample_most: usize,
}

impl CtrTable {
    /// Numbers of a sample's pooled vectors.
    pub fn pooled_width(&self) -> usize {
        self.slots * self.dim
    }
}

/// Some columns of a network's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CtrOutput {
    /// The label that the loss compares with; the tensor's name where there is no loss.
    pub name: String,
    pub width: usize,
}
