//! The scratch that a step of an HSTU stack needs, and how much that is.

use terrace_device::{DType, ViewMut, Workspace};
use terrace_kernels::{HstuStepSize, Ops, PageLayout};

use super::hstu_layer_spec::HstuLayerSpec;

/// The tensors of a step; every layer uses the same ones. "act" is the ops' type of activations.
pub(super) struct StackBuffers<'w> {
    /// act `[tokens, hidden]`
    pub normed: ViewMut<'w>,
    /// act `[tokens, uvqk width]`: U, V, Q, K side by side.
    pub uvqk: ViewMut<'w>,
    /// act `[tokens, heads * value_dim]`
    pub attended: ViewMut<'w>,
    /// act `[tokens, gated width]`
    pub gated: ViewMut<'w>,
    /// act `[tokens, hidden]`: what a layer adds to the stream; f32 where it is the stream.
    pub delta: ViewMut<'w>,
    /// u8 `[bytes]`: as much as attention asks for.
    pub scratch: ViewMut<'w>,
}

impl<'w> StackBuffers<'w> {
    pub fn take(
        workspace: &'w Workspace,
        ops: &Ops,
        spec: &HstuLayerSpec,
        layout: &PageLayout,
        size: HstuStepSize,
    ) -> Self {
        let [normed, uvqk, attended, gated, delta] =
            widths(ops, spec).map(|(dtype, width)| workspace.take(dtype, [size.tokens, width]));
        let bytes = ops.hstu_scratch_bytes(layout, size);
        let scratch = workspace.take(DType::U8, [bytes]);
        StackBuffers { normed, uvqk, attended, gated, delta, scratch }
    }

    /// Workspace bytes that `take` takes.
    pub fn bytes(
        ops: &Ops,
        spec: &HstuLayerSpec,
        layout: &PageLayout,
        size: HstuStepSize,
    ) -> usize {
        let bytes = |(dtype, width)| Workspace::bytes_for(dtype, [size.tokens, width]);
        let scratch = ops.hstu_scratch_bytes(layout, size);
        let rows: usize = widths(ops, spec).map(bytes).iter().sum();
        rows + Workspace::bytes_for(DType::U8, [scratch])
    }
}

fn widths(ops: &Ops, spec: &HstuLayerSpec) -> [(DType, usize); 5] {
    let act = ops.activation();
    [
        (act, spec.hidden),
        (act, spec.uvqk_width()),
        (act, spec.value_width()),
        (act, spec.gated_width()),
        (if spec.residual { act } else { DType::F32 }, spec.hidden),
    ]
}
