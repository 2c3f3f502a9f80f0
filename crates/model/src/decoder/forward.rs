//! A step through the decoder.

use terrace_device::{DType, View, ViewMut};
use terrace_kernels::{AttentionArgs, Projection, RopeAngles, RopeStyle};

use crate::decoder::buffers::Buffers;
use crate::decoder::weights::{LayerWeights, vector};
use crate::decoder::{Decoder, LayeredKv, StepCtx, TokenRows};
use crate::rope::RopeSpec;
use crate::spec::LayerSpec;

impl Decoder {
    /// Runs all layers and commits the new keys and values.
    ///
    /// Returns the normalised last hidden state of the wanted rows, f32 `[rows, hidden]`.
    pub fn forward<'w>(
        &self,
        ctx: StepCtx<'w>,
        rows: TokenRows<'_>,
        kv: &mut LayeredKv<'_, '_>,
    ) -> View<'w> {
        let [tokens] = rows.ids.dims();
        let [wanted] = rows.wanted.dims();
        let page_dtype = kv.groups[0].layout.dtype;
        let mut buffers = Buffers::take(ctx.scratch, self.spec(), tokens, page_dtype);
        let angles: Vec<RopeAngles<'w>> =
            self.spec.ropes.iter().map(|rope| angles(ctx, rope, rows.positions)).collect();

        let ops = ctx.ops;
        ops.embed(rows.ids, &self.weights.embed, buffers.stream.reborrow());
        ops.rms_norm(
            buffers.stream.as_view(),
            vector(&self.weights.layers[0].attention_norm),
            self.spec.norm_eps,
            buffers.normed.reborrow(),
        );
        for (index, layer) in self.spec.layers.iter().enumerate() {
            let weights = &self.weights.layers[index];
            let next_norm = match self.weights.layers.get(index + 1) {
                Some(next) => &next.attention_norm,
                None => &self.weights.final_norm,
            };
            let rope = layer.attention.rope;
            let rope_style = self.spec.ropes[rope].style;
            let step = LayerStep { ctx, layer, weights, rope_style, norm_eps: self.spec.norm_eps };
            step.attend(&mut buffers, angles[rope], kv, index);
            step.feed_forward(&mut buffers, next_norm);
        }
        let mut picked = ctx.scratch.take(DType::F32, [wanted, self.spec.hidden]);
        ops.gather_rows(buffers.normed.as_view(), rows.wanted, picked.reborrow());
        picked.into_view()
    }

    /// Scores the vocabulary for some rows of `forward`'s result: f32 `[rows, vocab]` into `out`.
    pub fn score(&self, ctx: StepCtx<'_>, hidden: View<'_>, out: ViewMut<'_>) {
        let head = Projection { weight: &self.weights.head, bias: None, out };
        ctx.ops.project(hidden, &mut [head]);
    }
}

/// One layer of one step.
struct LayerStep<'s, 'w> {
    ctx: StepCtx<'w>,
    layer: &'s LayerSpec,
    weights: &'s LayerWeights,
    rope_style: RopeStyle,
    norm_eps: f32,
}

impl LayerStep<'_, '_> {
    /// Attention over past slots and live rows, its result added to the stream and normalised for
    /// the feed-forward part; then the live rows are committed.
    fn attend(
        &self,
        buffers: &mut Buffers<'_>,
        angles: RopeAngles<'_>,
        kv: &mut LayeredKv<'_, '_>,
        index: usize,
    ) {
        let (ops, weights, spec) = (self.ctx.ops, self.weights, &self.layer.attention);
        ops.project(
            buffers.normed.as_view(),
            &mut [
                weights.query.to(buffers.query.reborrow()),
                weights.key.to(buffers.key.reborrow()),
                weights.value.to(buffers.value.reborrow()),
            ],
        );
        let mut query = buffers.query.reborrow().split_heads(spec.heads);
        let mut key = buffers.key.reborrow().split_heads(spec.kv_heads);
        if let Some(norm) = &weights.query_norm {
            ops.rms_norm_heads(query.reborrow(), vector(norm), self.norm_eps);
        }
        if let Some(norm) = &weights.key_norm {
            ops.rms_norm_heads(key.reborrow(), vector(norm), self.norm_eps);
        }
        ops.rope(query.reborrow(), angles, self.rope_style);
        ops.rope(key.reborrow(), angles, self.rope_style);
        ops.cast(key.as_view(), buffers.live_key.reborrow().split_heads(spec.kv_heads));
        let value = buffers.value.as_view().split_heads(spec.kv_heads);
        ops.cast(value, buffers.live_value.reborrow().split_heads(spec.kv_heads));

        let home = kv.homes[index];
        let paged = &mut kv.groups[home.group];
        let live_k = buffers.live_key.as_view().split_heads(spec.kv_heads);
        let live_v = buffers.live_value.as_view().split_heads(spec.kv_heads);
        ops.paged_attention(AttentionArgs {
            q: query.as_view(),
            live_k,
            live_v,
            kv: paged,
            layer: home.layer,
            scale: spec.scale,
            window: spec.window,
            out: buffers.attended.reborrow().split_heads(spec.heads),
        });
        ops.commit(live_k, live_v, paged, home.layer);
        let output = weights.output.to(buffers.delta.reborrow());
        ops.project(buffers.attended.as_view(), &mut [output]);
        self.add_and_norm(buffers, &weights.ffn_norm);
    }

    /// The gated product, added to the stream and normalised for whatever comes next.
    fn feed_forward(&self, buffers: &mut Buffers<'_>, next_norm: &[f32]) {
        let (ops, weights) = (self.ctx.ops, self.weights);
        ops.project(
            buffers.normed.as_view(),
            &mut [weights.gate.to(buffers.gate.reborrow()), weights.up.to(buffers.up.reborrow())],
        );
        ops.gate(
            buffers.gate.as_view(),
            buffers.up.as_view(),
            self.layer.ffn.activation,
            buffers.gated.reborrow(),
        );
        let down = weights.down.to(buffers.delta.reborrow());
        ops.project(buffers.gated.as_view(), &mut [down]);
        self.add_and_norm(buffers, next_norm);
    }

    fn add_and_norm(&self, buffers: &mut Buffers<'_>, norm: &[f32]) {
        self.ctx.ops.add_rms_norm(
            buffers.stream.reborrow(),
            buffers.delta.as_view(),
            vector(norm),
            self.norm_eps,
            buffers.normed.reborrow(),
        );
    }
}

fn angles<'w>(ctx: StepCtx<'w>, rope: &RopeSpec, positions: View<'_>) -> RopeAngles<'w> {
    let [tokens] = positions.dims();
    let pairs = rope.inv_freq.len();
    let mut cos = ctx.scratch.take(DType::F32, [tokens, pairs]);
    let mut sin = ctx.scratch.take(DType::F32, [tokens, pairs]);
    ctx.ops.rope_angles(
        positions,
        vector(&rope.inv_freq),
        rope.scale,
        cos.reborrow(),
        sin.reborrow(),
    );
    RopeAngles { cos: cos.into_view(), sin: sin.into_view() }
}
