//! A step through the decoder.

use std::ops::Range;

use terrace_device::{DType, View, ViewMut};
use terrace_kernels::{
    AttendArgs, AttendScratch, GatedArgs, GroupKv, HeadNorms, RerotatedRope, RopeAngles,
    RopeAnglesArgs, RopeFrequencies, RopeStyle, RowKinds, SlotKv, Vector,
};

use crate::decoder::buffers::Buffers;
use crate::decoder::layer_rows::LayerRows;
use crate::decoder::placed_weights::LayerWeights;
use crate::decoder::{Decoder, LayerLocation, LayeredKv, StepCtx, TokenRows};
use crate::layer_spec::{AttentionSpec, FfnSpec, GatedSpec, GroupedQuerySpec};
use crate::rope_spec::RopeSpec;

impl Decoder {
    /// Runs all layers and commits the new keys and values.
    ///
    /// out: the normalised last hidden state of the wanted rows, `[rows, hidden]`, in the ops' type
    /// of activations.
    pub fn forward(
        &self,
        ctx: StepCtx<'_>,
        rows: TokenRows<'_>,
        mut kv: LayeredKv<'_, '_>,
        out: ViewMut<'_>,
    ) {
        let [tokens] = rows.ids.dims();
        let (ops, weights) = (ctx.ops, &self.weights);
        let shape = [tokens, weights.rank()];
        let mut buffers = Buffers::take(ctx.scratch, self.spec(), ops, shape);
        let mut memory = self.prepare(ctx, rows.positions, &mut kv);

        ops.embed(rows.ids, rows.sampled, &weights.embed, buffers.stream.reborrow());
        let norms = weights.layers.iter().map(|layer| &layer.attention_norm);
        let mut norms = norms.chain([&weights.final_norm]);
        let first_norm = norms.next().expect("a final norm at the least");
        let (stream, normed) = (buffers.stream.as_view(), buffers.normed.reborrow());
        ops.rms_norm(stream, first_norm, self.spec.norm_eps, normed);
        for ((index, layer), next_norm) in self.spec.layers.iter().enumerate().zip(norms) {
            let AttentionSpec::GroupedQuery(attention) = &layer.attention;
            let FfnSpec::Gated(ffn) = &layer.ffn;
            let step = LayerStep {
                ctx,
                row_kinds: rows.row_kinds,
                attention,
                ffn,
                weights: &weights.layers[index],
                rope_style: self.spec.ropes[attention.rope].style,
                inv_freq: &weights.inv_freqs[attention.rope],
                norm_eps: self.spec.norm_eps,
            };
            step.attend(&mut buffers, &mut kv, &mut memory, index);
            step.feed_forward(&mut buffers, next_norm);
        }
        ops.gather_rows(buffers.normed.as_view(), rows.wanted, out);
    }

    /// Gives live rows their slots, and each segment its angles and the memory it works in.
    fn prepare<'w>(
        &self,
        ctx: StepCtx<'w>,
        positions: View<'_>,
        kv: &mut LayeredKv<'_, '_>,
    ) -> Vec<SegmentMemory<'w>> {
        let mut memory = Vec::with_capacity(kv.segments.len());
        for segment in &mut *kv.segments {
            let layers = self.spec.layers.iter().zip(segment.locations);
            let scratch = layers.map(|(layer, location)| {
                let AttentionSpec::GroupedQuery(attention) = &layer.attention;
                ctx.ops.attend_scratch(&segment.groups[location.group].layout(), attention.heads)
            });
            let widest = scratch.max_by_key(|scratch| scratch.columns);
            let AttendScratch { dtype, columns } = widest.expect("a decoder has layers");
            let scratch = LayerRows::take(ctx.scratch, dtype, [segment.rows.len(), columns]);
            let positions = positions.rows(segment.rows.clone());
            let angles = self.angles(ctx, positions, own_frequencies(&segment.groups[0]));
            let rerotated = segment.groups.iter_mut().map(|group| {
                let own = own_frequencies(group);
                let GroupKv::Slots(mut kv) = group.with_pages(kv.pages.reborrow()) else {
                    return None;
                };
                ctx.ops.choose_slots(&mut kv);
                Some(self.angles(ctx, kv.rerotated_positions?, own))
            });
            memory.push(SegmentMemory { angles, rerotated: rerotated.collect(), scratch });
        }
        memory
    }

    /// Of each rope; `own` frequencies of the rows' sequences replace its own.
    fn angles<'w>(
        &self,
        ctx: StepCtx<'w>,
        positions: View<'_>,
        own: Option<RopeFrequencies<'_>>,
    ) -> Vec<RopeAngles<'w>> {
        let ropes = self.spec.ropes.iter().zip(&self.weights.inv_freqs);
        let angles = ropes.map(|(rope, inv_freq)| {
            let frequencies = own.unwrap_or_else(|| RopeFrequencies::of_all(inv_freq));
            angles(ctx, rope, frequencies, positions)
        });
        angles.collect()
    }

    /// Scores the vocabulary for some rows of `forward`'s result: f32 `[rows, vocab]` into `out`.
    /// They are few, so all are multiplied as generated ones are.
    pub fn score(&self, ctx: StepCtx<'_>, hidden: View<'_>, out: ViewMut<'_>) {
        let ([rows, _], head) = (hidden.dims(), &self.weights.head);
        let mut inner = LayerRows::take(ctx.scratch, DType::F32, [rows, head.rank()]);
        head.project(ctx.ops, hidden, RowKinds::Generated, &mut inner, out);
    }
}

/// What one segment of a step works in, in all layers.
struct SegmentMemory<'w> {
    /// As wide as the layer's attention asks for.
    scratch: LayerRows<'w>,
    /// Of each rope.
    angles: Vec<RopeAngles<'w>>,
    /// Of each group, where keys are re-rotated: of each rope, how queries see them.
    rerotated: Vec<Option<Vec<RopeAngles<'w>>>>,
}

/// What one segment of a step has in a layer.
struct SegmentLayer<'k> {
    rows: Range<usize>,
    kv: GroupKv<'k>,
    location: LayerLocation,
}

/// One layer of one step.
struct LayerStep<'s, 'w> {
    ctx: StepCtx<'w>,
    row_kinds: RowKinds<'s>,
    attention: &'s GroupedQuerySpec,
    ffn: &'s GatedSpec,
    weights: &'s LayerWeights,
    rope_style: RopeStyle,
    inv_freq: &'s Vector,
    norm_eps: f32,
}

impl LayerStep<'_, '_> {
    /// Attention over past slots and live rows, its result added to the stream and normalised for
    /// the feed-forward part; the live rows are committed.
    fn attend(
        &self,
        buffers: &mut Buffers<'_>,
        kv: &mut LayeredKv<'_, '_>,
        memory: &mut [SegmentMemory<'_>],
        index: usize,
    ) {
        let (ops, weights) = (self.ctx.ops, self.weights);
        let row_kinds = self.row_kinds;
        let qkv = buffers.qkv.of_width(weights.qkv.linear.rows());
        weights.qkv.project(ops, buffers.normed.as_view(), row_kinds, &mut buffers.inner, qkv);
        if let Some(before_layer) = kv.before_layer {
            before_layer(index);
        }
        for (segment, memory) in kv.segments.iter_mut().zip(memory) {
            let location = segment.locations[index];
            let group = segment.groups[location.group].with_pages(kv.pages.reborrow());
            let rows = segment.rows.clone();
            self.attend_segment(SegmentLayer { rows, kv: group, location }, buffers, memory);
        }
        let delta = buffers.delta.reborrow();
        let attended = buffers.attended.read(self.attention.query_width());
        weights.output.project(ops, attended, row_kinds, &mut buffers.inner, delta);
        self.add_and_norm(buffers, &weights.ffn_norm);
    }

    fn attend_segment(
        &self,
        segment: SegmentLayer<'_>,
        buffers: &mut Buffers<'_>,
        memory: &mut SegmentMemory<'_>,
    ) {
        let SegmentLayer { rows, mut kv, location } = segment;
        let (ops, weights, spec) = (self.ctx.ops, self.weights, self.attention);
        let scratch = ops.attend_scratch(&kv.layout(), spec.heads);
        let rerotated = memory.rerotated[location.group].as_ref();
        let args = AttendArgs {
            qkv: buffers.qkv.of_width(weights.qkv.linear.rows()).rows(rows.clone()),
            heads: spec.heads,
            row_kinds: self.row_kinds,
            first_row: rows.start,
            norms: HeadNorms {
                query: weights.query_norm.as_ref(),
                key: weights.key_norm.as_ref(),
                eps: self.norm_eps,
            },
            angles: memory.angles[spec.rope],
            rerotated: rerotated.map(|rerotated| RerotatedRope {
                angles: rerotated[spec.rope],
                inv_freq: self.inv_freq.view(),
            }),
            rope_style: self.rope_style,
            layer: location.layer,
            scale: spec.scale,
            window: spec.window,
            scratch: memory.scratch.of_width(scratch.columns),
            out: buffers.attended.of_width(spec.query_width()).rows(rows),
        };
        self.ctx.ops.attend(args, &mut kv);
    }

    /// The gated product, added to the stream and normalised for whatever comes next.
    fn feed_forward(&self, buffers: &mut Buffers<'_>, next_norm: &Vector) {
        let (ops, weights) = (self.ctx.ops, self.weights);
        let gated = GatedArgs {
            x: buffers.normed.as_view(),
            row_kinds: self.row_kinds,
            weights: &weights.gate_up.linear,
            activation: self.ffn.activation,
            both: buffers.gate_up.of_width(weights.gate_up.linear.rows()),
            out: buffers.gated.of_width(self.ffn.width),
        };
        weights.gate_up.project_gated(ops, gated, &mut buffers.inner);
        let delta = buffers.delta.reborrow();
        let gated = buffers.gated.read(self.ffn.width);
        weights.down.project(ops, gated, self.row_kinds, &mut buffers.inner, delta);
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

/// Those of sequences whose keys are rotated on read.
fn own_frequencies<'a>(group: &GroupKv<'a>) -> Option<RopeFrequencies<'a>> {
    let GroupKv::Slots(SlotKv { read_rope: Some(rope), row_seqs, .. }) = group else {
        return None;
    };
    Some(RopeFrequencies { inv_freqs: rope.inv_freqs, row_seqs: Some(*row_seqs) })
}

fn angles<'w>(
    ctx: StepCtx<'w>,
    rope: &RopeSpec,
    frequencies: RopeFrequencies<'_>,
    positions: View<'_>,
) -> RopeAngles<'w> {
    let [tokens] = positions.dims();
    let pairs = rope.inv_freq.len();
    let mut cos = ctx.scratch.take(DType::F32, [tokens, pairs]);
    let mut sin = ctx.scratch.take(DType::F32, [tokens, pairs]);
    ctx.ops.rope_angles(RopeAnglesArgs {
        positions,
        frequencies,
        scale: rope.scale,
        cos: cos.reborrow(),
        sin: sin.reborrow(),
    });
    RopeAngles { cos: cos.into_view(), sin: sin.into_view() }
}
