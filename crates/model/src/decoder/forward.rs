//! A step through the decoder.

use terrace_device::{DType, View, ViewMut};
use terrace_kernels::{AttendArgs, RopeAngles, RopeStyle, RowOrigins, Vector};

use crate::decoder::buffers::Buffers;
use crate::decoder::weights::LayerWeights;
use crate::decoder::{Decoder, LayeredKv, StepCtx, TokenRows};
use crate::rope::RopeSpec;
use crate::spec::LayerSpec;

impl Decoder {
    /// Runs all layers and commits the new keys and values.
    ///
    /// out: the normalised last hidden state of the wanted rows, `[rows, hidden]`, in the ops' type
    /// of activations.
    pub fn forward(
        &self,
        ctx: StepCtx<'_>,
        rows: TokenRows<'_>,
        kv: &mut LayeredKv<'_, '_>,
        out: ViewMut<'_>,
    ) {
        let [tokens] = rows.ids.dims();
        let (ops, weights) = (ctx.ops, &self.weights);
        let layout = kv.groups[0].layout;
        let mut buffers = Buffers::take(ctx.scratch, self.spec(), ops, &layout, tokens);
        let ropes = self.spec.ropes.iter().zip(&weights.inv_freqs);
        let angles: Vec<RopeAngles<'_>> =
            ropes.map(|(rope, inv_freq)| angles(ctx, rope, inv_freq, rows.positions)).collect();

        ops.embed(rows.ids, rows.sampled, &weights.embed, buffers.stream.reborrow());
        ops.rms_norm(
            buffers.stream.as_view(),
            &weights.layers[0].attention_norm,
            self.spec.norm_eps,
            buffers.normed.reborrow(),
        );
        for (index, layer) in self.spec.layers.iter().enumerate() {
            let next_norm = match weights.layers.get(index + 1) {
                Some(next) => &next.attention_norm,
                None => &weights.final_norm,
            };
            let rope = layer.attention.rope;
            let step = LayerStep {
                ctx,
                origins: rows.origins,
                layer,
                weights: &weights.layers[index],
                rope_style: self.spec.ropes[rope].style,
                norm_eps: self.spec.norm_eps,
            };
            step.attend(&mut buffers, angles[rope], kv, index);
            step.feed_forward(&mut buffers, next_norm);
        }
        ops.gather_rows(buffers.normed.as_view(), rows.wanted, out);
    }

    /// Scores the vocabulary for some rows of `forward`'s result: f32 `[rows, vocab]` into `out`.
    /// They are few, so all are multiplied as generated ones are.
    pub fn score(&self, ctx: StepCtx<'_>, hidden: View<'_>, out: ViewMut<'_>) {
        ctx.ops.project(hidden, RowOrigins::Generated, &self.weights.head, out);
    }
}

/// One layer of one step.
struct LayerStep<'s, 'w> {
    ctx: StepCtx<'w>,
    origins: RowOrigins<'s>,
    layer: &'s LayerSpec,
    weights: &'s LayerWeights,
    rope_style: RopeStyle,
    norm_eps: f32,
}

impl LayerStep<'_, '_> {
    /// Attention over past slots and live rows, its result added to the stream and normalised for
    /// the feed-forward part; the live rows are committed.
    fn attend(
        &self,
        buffers: &mut Buffers<'_>,
        angles: RopeAngles<'_>,
        kv: &mut LayeredKv<'_, '_>,
        index: usize,
    ) {
        let (ops, weights, spec) = (self.ctx.ops, self.weights, &self.layer.attention);
        let origins = self.origins;
        ops.project(buffers.normed.as_view(), origins, &weights.qkv, buffers.qkv.reborrow());
        let home = kv.homes[index];
        ops.attend(AttendArgs {
            qkv: buffers.qkv.reborrow(),
            heads: spec.heads,
            origins,
            query_norm: weights.query_norm.as_ref(),
            key_norm: weights.key_norm.as_ref(),
            norm_eps: self.norm_eps,
            angles,
            rope_style: self.rope_style,
            kv: &mut kv.groups[home.group],
            layer: home.layer,
            scale: spec.scale,
            window: spec.window,
            scratch: buffers.attend_scratch.reborrow(),
            out: buffers.attended.reborrow(),
        });
        let delta = buffers.delta.reborrow();
        ops.project(buffers.attended.as_view(), origins, &weights.output, delta);
        self.add_and_norm(buffers, &weights.ffn_norm);
    }

    /// The gated product, added to the stream and normalised for whatever comes next.
    fn feed_forward(&self, buffers: &mut Buffers<'_>, next_norm: &Vector) {
        let (ops, weights) = (self.ctx.ops, self.weights);
        ops.project_gated(
            buffers.normed.as_view(),
            self.origins,
            &weights.gate_up,
            self.layer.ffn.activation,
            buffers.gate_up.reborrow(),
            buffers.gated.reborrow(),
        );
        let delta = buffers.delta.reborrow();
        ops.project(buffers.gated.as_view(), self.origins, &weights.down, delta);
        self.add_and_norm(buffers, next_norm);
    }

    fn add_and_norm(&self, buffers: &mut Buffers<'_>, norm: &Vector) {
        self.ctx.ops.add_rms_norm(
            buffers.stream.reborrow(),
            buffers.delta.as_view(),
            norm,
            self.norm_eps,
            buffers.normed.reborrow(),
        );
    }
}

fn angles<'w>(
    ctx: StepCtx<'w>,
    rope: &RopeSpec,
    inv_freq: &Vector,
    positions: View<'_>,
) -> RopeAngles<'w> {
    let [tokens] = positions.dims();
    let pairs = rope.inv_freq.len();
    let mut cos = ctx.scratch.take(DType::F32, [tokens, pairs]);
    let mut sin = ctx.scratch.take(DType::F32, [tokens, pairs]);
    ctx.ops.rope_angles(positions, inv_freq, rope.scale, cos.reborrow(), sin.reborrow());
    RopeAngles { cos: cos.into_view(), sin: sin.into_view() }
}
