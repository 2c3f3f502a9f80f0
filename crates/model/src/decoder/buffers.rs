//! The scratch a step needs, and how much that is.

use terrace_device::{DType, ViewMut, Workspace};

use crate::decoder::Decoder;
use crate::spec::{DecoderSpec, LayerSpec};

/// Bounds of the largest step, fixed at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepShape {
    /// Rows of a step.
    pub tokens: usize,
    /// Rows whose next token is wanted.
    pub wanted: usize,
    /// Rows scored against the vocabulary at a time.
    pub scored: usize,
}

/// The tensors of a step; every layer uses the same ones.
pub(super) struct Buffers<'w> {
    /// f32 `[tokens, hidden]`: the residual stream.
    pub stream: ViewMut<'w>,
    /// f32 `[tokens, hidden]`: the stream's norm, then a layer's result.
    pub normed: ViewMut<'w>,
    /// f32 `[tokens, hidden]`: what a part adds to the stream.
    pub delta: ViewMut<'w>,
    /// f32 `[tokens, heads * head_dim]`, and the attention's result of the same width.
    pub query: ViewMut<'w>,
    pub attended: ViewMut<'w>,
    /// f32 `[tokens, kv_heads * head_dim]`, and the same in the pages' type.
    pub key: ViewMut<'w>,
    pub value: ViewMut<'w>,
    pub live_key: ViewMut<'w>,
    pub live_value: ViewMut<'w>,
    /// f32 `[tokens, ffn width]`
    pub gate: ViewMut<'w>,
    pub up: ViewMut<'w>,
    pub gated: ViewMut<'w>,
}

/// Extents of [`Buffers`]: type and columns, in its order.
fn columns(spec: &DecoderSpec, page_dtype: DType) -> [(DType, usize); 12] {
    // All layers are as wide as the first; `DecoderSpec::check` refuses others.
    let LayerSpec { attention, ffn } = &spec.layers[0];
    let query = attention.heads * attention.head_dim;
    let key = attention.kv_heads * attention.head_dim;
    [
        (DType::F32, spec.hidden),
        (DType::F32, spec.hidden),
        (DType::F32, spec.hidden),
        (DType::F32, query),
        (DType::F32, query),
        (DType::F32, key),
        (DType::F32, key),
        (page_dtype, key),
        (page_dtype, key),
        (DType::F32, ffn.width),
        (DType::F32, ffn.width),
        (DType::F32, ffn.width),
    ]
}

impl<'w> Buffers<'w> {
    pub fn take(
        scratch: &'w Workspace,
        spec: &DecoderSpec,
        tokens: usize,
        page_dtype: DType,
    ) -> Self {
        let [
            stream,
            normed,
            delta,
            query,
            attended,
            key,
            value,
            live_key,
            live_value,
            gate,
            up,
            gated,
        ] = columns(spec, page_dtype).map(|(dtype, width)| scratch.take(dtype, [tokens, width]));
        Buffers {
            stream,
            normed,
            delta,
            query,
            attended,
            key,
            value,
            live_key,
            live_value,
            gate,
            up,
            gated,
        }
    }
}

impl Decoder {
    /// Workspace bytes that the largest step takes.
    pub fn workspace_bytes(&self, shape: StepShape, page_dtype: DType) -> usize {
        let StepShape { tokens, wanted, scored } = shape;
        let spec = self.spec();
        let rows: usize = columns(spec, page_dtype)
            .map(|(dtype, width)| Workspace::bytes_for(dtype, [tokens, width]))
            .iter()
            .sum();
        let angles: usize = spec
            .ropes
            .iter()
            .map(|rope| 2 * Workspace::bytes_for(DType::F32, [tokens, rope.inv_freq.len()]))
            .sum();
        let picked = Workspace::bytes_for(DType::F32, [wanted, spec.hidden]);
        rows + angles + picked + Workspace::bytes_for(DType::F32, [scored, spec.vocab])
    }
}
