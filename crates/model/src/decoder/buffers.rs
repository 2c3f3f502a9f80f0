//! The scratch a step needs, and how much that is.

use terrace_device::{DType, ViewMut, Workspace};
use terrace_kernels::{Ops, PageLayout};

use crate::decoder::Decoder;
use crate::spec::{DecoderSpec, LayerSpec};

/// The tensors of a step; every layer uses the same ones. "act" is the ops' type of activations.
pub(super) struct Buffers<'w> {
    /// f32 `[tokens, hidden]`: the residual stream.
    pub stream: ViewMut<'w>,
    /// act `[tokens, hidden]`: the stream's norm.
    pub normed: ViewMut<'w>,
    /// f32 `[tokens, hidden]`: what a part adds to the stream.
    pub delta: ViewMut<'w>,
    /// act `[tokens, (heads + 2 kv_heads) * head_dim]`: queries, keys and values side by side.
    pub qkv: ViewMut<'w>,
    /// What attention works in.
    pub attend_scratch: ViewMut<'w>,
    /// act `[tokens, heads * head_dim]`
    pub attended: ViewMut<'w>,
    /// act `[tokens, 2 ffn width]`
    pub gate_up: ViewMut<'w>,
    /// act `[tokens, ffn width]`
    pub gated: ViewMut<'w>,
}

/// Extents of [`Buffers`]: type and columns, in its order.
fn columns(spec: &DecoderSpec, ops: &Ops, layout: &PageLayout) -> [(DType, usize); 8] {
    // All layers are as wide as the first; `DecoderSpec::check` refuses others.
    let LayerSpec { attention, ffn } = &spec.layers[0];
    let act = ops.activation();
    let query = attention.heads * attention.head_dim;
    let key = attention.kv_heads * attention.head_dim;
    let attend = ops.attend_scratch(layout, attention.heads);
    [
        (DType::F32, spec.hidden),
        (act, spec.hidden),
        (DType::F32, spec.hidden),
        (act, query + 2 * key),
        (attend.dtype, attend.columns),
        (act, query),
        (act, 2 * ffn.width),
        (act, ffn.width),
    ]
}

impl<'w> Buffers<'w> {
    pub fn take(
        scratch: &'w Workspace,
        spec: &DecoderSpec,
        ops: &Ops,
        layout: &PageLayout,
        tokens: usize,
    ) -> Self {
        let [stream, normed, delta, qkv, attend_scratch, attended, gate_up, gated] =
            columns(spec, ops, layout).map(|(dtype, width)| scratch.take(dtype, [tokens, width]));
        Buffers { stream, normed, delta, qkv, attend_scratch, attended, gate_up, gated }
    }
}

impl Decoder {
    /// Workspace bytes that `forward` of so many rows takes.
    pub fn workspace_bytes(&self, ops: &Ops, tokens: usize, layout: &PageLayout) -> usize {
        let spec = self.spec();
        let rows: usize = columns(spec, ops, layout)
            .map(|(dtype, width)| Workspace::bytes_for(dtype, [tokens, width]))
            .iter()
            .sum();
        let angles: usize = spec
            .ropes
            .iter()
            .map(|rope| 2 * Workspace::bytes_for(DType::F32, [tokens, rope.inv_freq.len()]))
            .sum();
        rows + angles
    }
}
