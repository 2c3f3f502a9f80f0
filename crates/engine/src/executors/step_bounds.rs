//! Memory that a step with slots needs at most, whatever their formats are.

use terrace_device::{DType, Workspace};
use terrace_kernels::{RowFormat, SlotLayout, SlotNotes};
use terrace_model::{AttentionSpec, DecoderSpec};

/// Slots of a model's layers; what attention works in does not depend on their format.
pub(crate) fn any_slots(spec: &DecoderSpec) -> SlotLayout {
    let AttentionSpec { kv_heads, head_dim, .. } = spec.layers[0].attention;
    SlotLayout {
        layers: spec.layers.len(),
        kv_heads,
        page_slots: 1,
        key_dim: head_dim,
        value_dim: head_dim,
        keys: RowFormat::F32,
        values: RowFormat::F32,
        notes: SlotNotes::default(),
    }
}

/// Workspace for the slots of a step's rows in all layers, which are in so many groups.
pub(crate) fn slots_bytes(spec: &DecoderSpec, tokens: usize, groups: usize) -> usize {
    let kv_heads = spec.layers[0].attention.kv_heads;
    Workspace::bytes_for(DType::I32, [spec.layers.len(), tokens, kv_heads])
        + groups * Workspace::bytes_for(DType::U8, [1])
}
