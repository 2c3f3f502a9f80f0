//! Memory that a step with slots needs at most, whatever their formats are.

use terrace_device::{DType, Workspace};
use terrace_kernels::{KvLayout, RowFormat, SlotLayout, SlotNotes};
use terrace_model::{AttentionSpec, DecoderSpec};

/// Slots of each of a model's layers; what attention works in does not depend on their format.
pub(crate) fn any_slots(spec: &DecoderSpec) -> impl Iterator<Item = KvLayout> {
    spec.layers.iter().map(|layer| {
        let AttentionSpec::GroupedQuery(attention) = &layer.attention;
        KvLayout::Slots(SlotLayout {
            layers: 1,
            kv_heads: attention.kv_heads,
            page_slots: 1,
            key_dim: attention.head_dim,
            value_dim: attention.head_dim,
            keys: RowFormat::F32,
            values: RowFormat::F32,
            notes: SlotNotes::default(),
        })
    })
}

/// Bytes of the slots of a step's rows in all layers.
pub(crate) fn slot_array_bytes(spec: &DecoderSpec, tokens: usize) -> usize {
    let kv_heads = spec.layers.iter().map(|layer| {
        let AttentionSpec::GroupedQuery(attention) = &layer.attention;
        attention.kv_heads
    });
    DType::I32.bytes() * tokens * kv_heads.sum::<usize>()
}

/// Workspace for the slots of a step's rows in all layers, which are in so many groups.
pub(crate) fn slots_bytes(spec: &DecoderSpec, tokens: usize, groups: usize) -> usize {
    let bytes = slot_array_bytes(spec, tokens);
    Workspace::bytes_for(DType::U8, [bytes]) + groups * Workspace::bytes_for(DType::U8, [1])
}
