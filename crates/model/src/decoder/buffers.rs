//! The scratch a step needs, and how much that is.

use terrace_device::{DType, ViewMut, Workspace};
use terrace_kernels::{KvLayout, Ops};

use crate::decoder::Decoder;
use crate::rope::RopeSpec;
use crate::spec::{DecoderSpec, LayerSpec};

/// The tensors of a step; every layer uses the same ones. "act" is the ops' type of activations.
pub(super) struct Buffers<'w> {
    /// f32 `[tokens, hidden]`: the residual stream.
    pub stream: ViewMut<'w>,
    /// act `[tokens, hidden]`: the stream's norm.
    pub normed: ViewMut<'w>,
    /// f32 `[tokens, hidden]`: what a layer's half adds to the stream.
    pub delta: ViewMut<'w>,
    /// act `[tokens, (heads + 2 kv_heads) * head_dim]`: queries, keys and values side by side.
    pub qkv: ViewMut<'w>,
    /// act `[tokens, heads * head_dim]`
    pub attended: ViewMut<'w>,
    /// act `[tokens, 2 ffn width]`
    pub gate_up: ViewMut<'w>,
    /// act `[tokens, ffn width]`
    pub gated: ViewMut<'w>,
}

/// Extents of [`Buffers`]: type and columns, in its order.
fn columns(spec: &DecoderSpec, ops: &Ops) -> [(DType, usize); 7] {
    // All layers are as wide as the first; `DecoderSpec::check` refuses others.
    let LayerSpec { attention, ffn } = &spec.layers[0];
    let act = ops.activation();
    let query = attention.heads * attention.head_dim;
    let key = attention.kv_heads * attention.head_dim;
    [
        (DType::F32, spec.hidden),
        (act, spec.hidden),
        (DType::F32, spec.hidden),
        (act, query + 2 * key),
        (act, query),
        (act, 2 * ffn.width),
        (act, ffn.width),
    ]
}

impl<'w> Buffers<'w> {
    pub fn take(scratch: &'w Workspace, spec: &DecoderSpec, ops: &Ops, tokens: usize) -> Self {
        let [stream, normed, delta, qkv, attended, gate_up, gated] =
            columns(spec, ops).map(|(dtype, width)| scratch.take(dtype, [tokens, width]));
        Buffers { stream, normed, delta, qkv, attended, gate_up, gated }
    }
}

/// The largest step that a workspace is for.
#[derive(Clone, Copy, Debug)]
pub struct WorkspaceShape<'a> {
    pub tokens: usize,
    /// Groups of layers, those of all kinds of caches in one step.
    pub groups: usize,
    /// Layouts of all kinds, or one of each that works in the most memory.
    pub layouts: &'a [KvLayout],
}

impl Decoder {
    /// Workspace bytes that `forward` of a step up to this shape takes.
    pub fn workspace_bytes(&self, ops: &Ops, shape: WorkspaceShape<'_>) -> usize {
        let WorkspaceShape { tokens, groups, layouts } = shape;
        let spec = self.spec();
        let rows: usize = columns(spec, ops)
            .map(|(dtype, width)| Workspace::bytes_for(dtype, [tokens, width]))
            .iter()
            .sum();
        let angles = |tokens: usize| -> usize {
            let sides = |rope: &RopeSpec| {
                2 * Workspace::bytes_for(DType::F32, [tokens, rope.inv_freq.len()])
            };
            spec.ropes.iter().map(sides).sum()
        };
        let attend = layouts.iter().map(|layout| {
            let scratch = ops.attend_scratch(layout, spec.layers[0].attention.heads);
            Workspace::bytes_for(scratch.dtype, [tokens, scratch.columns])
        });
        // Angles are taken for the rows of each segment, and again in each group where keys are
        // re-rotated; the memory of each begins at an address of its own.
        let round_up = (1 + 4 * spec.ropes.len()) * Workspace::bytes_for(DType::U8, [1]);
        rows + 2 * angles(tokens) + attend.max().unwrap_or(0) + groups * round_up
    }
}
