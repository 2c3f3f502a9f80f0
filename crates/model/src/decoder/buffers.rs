//! The scratch a step needs, and how much that is.

use terrace_device::{DType, ViewMut, Workspace};
use terrace_kernels::{KvLayout, Ops};

use crate::decoder::Decoder;
use crate::decoder::layer_rows::LayerRows;
use crate::decoder_spec::DecoderSpec;
use crate::layer_spec::{AttentionSpec, FfnSpec, LayerSpec};
use crate::rope_spec::RopeSpec;

/// The tensors of a step; every layer uses the same ones. "act" is the ops' type of activations.
pub(super) struct Buffers<'w> {
    /// f32 `[tokens, hidden]`: the residual stream.
    pub stream: ViewMut<'w>,
    /// act `[tokens, hidden]`: the stream's norm.
    pub normed: ViewMut<'w>,
    /// f32 `[tokens, hidden]`: what a layer's half adds to the stream.
    pub delta: ViewMut<'w>,
    /// act `[tokens, (heads + 2 kv_heads) * head_dim]`: queries, keys and values side by side.
    pub qkv: LayerRows<'w>,
    /// act `[tokens, heads * head_dim]`
    pub attended: LayerRows<'w>,
    /// act `[tokens, 2 ffn width]`
    pub gate_up: LayerRows<'w>,
    /// act `[tokens, ffn width]`
    pub gated: LayerRows<'w>,
    /// f32 `[tokens, rank]`: what branches work in.
    pub inner: LayerRows<'w>,
}

/// Columns of the widest layer's [`Buffers`]: `qkv`, `attended`, `gate_up` and `gated`.
fn widest(spec: &DecoderSpec) -> [usize; 4] {
    let columns = spec.layers.iter().map(|LayerSpec { attention, ffn }| {
        let AttentionSpec::GroupedQuery(attention) = attention;
        let FfnSpec::Gated(ffn) = ffn;
        let query = attention.query_width();
        [query + 2 * attention.kv_width(), query, 2 * ffn.width, ffn.width]
    });
    columns.fold([0; 4], |widest, layer| std::array::from_fn(|i| widest[i].max(layer[i])))
}

impl<'w> Buffers<'w> {
    /// `rank` is that of the widest branch.
    pub fn take(
        scratch: &'w Workspace,
        spec: &DecoderSpec,
        ops: &Ops,
        [tokens, rank]: [usize; 2],
    ) -> Self {
        let act = ops.activation();
        let stream = |dtype| scratch.take(dtype, [tokens, spec.hidden]);
        let (residual, normed, delta) = (stream(DType::F32), stream(act), stream(DType::F32));
        let [qkv, attended, gate_up, gated] =
            widest(spec).map(|width| LayerRows::take(scratch, act, [tokens, width]));
        let inner = LayerRows::take(scratch, DType::F32, [tokens, rank]);
        Buffers { stream: residual, normed, delta, qkv, attended, gate_up, gated, inner }
    }

    /// Workspace bytes that `take` takes.
    fn bytes(spec: &DecoderSpec, ops: &Ops, [tokens, rank]: [usize; 2]) -> usize {
        let bytes = |dtype, width| Workspace::bytes_for(dtype, [tokens, width]);
        let act = ops.activation();
        let of_layers: usize = widest(spec).map(|width| bytes(act, width)).iter().sum();
        let streams = 2 * bytes(DType::F32, spec.hidden) + bytes(act, spec.hidden);
        streams + of_layers + bytes(DType::F32, rank)
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
    /// Workspace bytes that `forward` of a step up to this shape takes, and `score` of its rows.
    pub fn workspace_bytes(&self, ops: &Ops, shape: WorkspaceShape<'_>) -> usize {
        let WorkspaceShape { tokens, groups, layouts } = shape;
        let spec = self.spec();
        let angles = |tokens: usize| -> usize {
            let sides = |rope: &RopeSpec| {
                2 * Workspace::bytes_for(DType::F32, [tokens, rope.inv_freq.len()])
            };
            spec.ropes.iter().map(sides).sum()
        };
        let attend = layouts.iter().flat_map(|layout| {
            spec.layers.iter().map(move |layer| {
                let AttentionSpec::GroupedQuery(attention) = &layer.attention;
                let scratch = ops.attend_scratch(layout, attention.heads);
                Workspace::bytes_for(scratch.dtype, [tokens, scratch.columns])
            })
        });
        // Angles are taken for the rows of each segment, and again in each group whose keys are
        // re-rotated; the memory of each is rounded up.
        let round_up = (1 + 4 * spec.ropes.len()) * Workspace::bytes_for(DType::U8, [1]);
        let rows = Buffers::bytes(spec, ops, [tokens, self.weights.rank()]);
        // Rows may be scored one by one.
        let scores = tokens * Workspace::bytes_for(DType::F32, [1, self.weights.head.rank()]);
        rows + scores + 2 * angles(tokens) + attend.max().unwrap_or(0) + groups * round_up
    }
}
