//! The layers of an HSTU model, one after the other.

use terrace_device::{DType, View, ViewMut, Workspace};
use terrace_kernels::{
    Affine, AttendedRows, GatedNormArgs, HstuAttendArgs, HstuKv, HstuStepSize, Linear, LinearShape,
    Ops, PageLayout, PlacedTimeBuckets, RelativeBias, RowKinds, RowScale, TimeBuckets, Vector,
    WeightFormat,
};

use super::hstu_layer_spec::{Activated, HstuLayerSpec};
use super::layer_tensors::{HstuLayerTensors, NormTensors};
use super::stack_buffers::StackBuffers;
use crate::error::Error;

pub struct HstuStack {
    spec: HstuLayerSpec,
    layers: Vec<PlacedLayer>,
}

struct PlacedLayer {
    input_norm: Option<PlacedNorm>,
    uvqk: Linear,
    output_norm: Option<PlacedNorm>,
    output: Linear,
    bias: Option<PlacedBias>,
}

struct PlacedNorm {
    weight: Vector,
    bias: Vector,
}

struct PlacedBias {
    by_position: Vector,
    by_time: Vector,
    buckets: PlacedTimeBuckets,
}

/// What a step runs on.
#[derive(Clone, Copy)]
pub struct HstuStepCtx<'a> {
    pub ops: &'a Ops,
    pub workspace: &'a Workspace,
    /// Called before a layer reads pages, where these may still be on their way.
    pub before_pages: Option<&'a dyn Fn(usize)>,
}

impl<'a> HstuStepCtx<'a> {
    /// All pages are there.
    pub fn new(ops: &'a Ops, workspace: &'a Workspace) -> Self {
        HstuStepCtx { ops, workspace, before_pages: None }
    }
}

/// When the events of a step happened, for layers that look at times.
#[derive(Clone, Copy)]
pub struct StepTimes<'a> {
    /// i64 `[tokens]`: of the event after each row's.
    pub rows: View<'a>,
    /// i64 `[seqs, positions]`
    pub keys: View<'a>,
}

impl HstuStack {
    /// Brings the weights to the device.
    pub fn place(
        ops: &Ops,
        spec: HstuLayerSpec,
        layers: Vec<HstuLayerTensors>,
    ) -> Result<Self, Error> {
        ops.check_hstu(spec.key_dim, spec.value_dim)?;
        let place = |tensors: HstuLayerTensors| -> Result<PlacedLayer, Error> {
            let HstuLayerTensors { input_norm, uvqk, output_norm, output, bias } = tensors;
            let bias = bias.map(|bias| -> Result<PlacedBias, Error> {
                Ok(PlacedBias {
                    by_position: ops.place_vector(&bias.by_position)?,
                    by_time: ops.place_vector(&bias.by_time)?,
                    buckets: ops.place_time_buckets(TimeBuckets::new(bias.by_time.len()))?,
                })
            });
            Ok(PlacedLayer {
                input_norm: place_norm(ops, input_norm)?,
                uvqk: ops.place(vec![uvqk])?,
                output_norm: place_norm(ops, output_norm)?,
                output: ops.place(vec![output])?,
                bias: bias.transpose()?,
            })
        };
        let layers = layers.into_iter().map(place).collect::<Result<_, _>>()?;
        Ok(HstuStack { spec, layers })
    }

    /// Layers of numbers that mean nothing, without biases by position and time: for measurements.
    pub fn random(ops: &Ops, spec: HstuLayerSpec, layers: usize) -> Result<Self, Error> {
        ops.check_hstu(spec.key_dim, spec.value_dim)?;
        let shape = |rows, columns| LinearShape { rows, columns, gated: false, table: None };
        let norm = |width: usize| -> Result<Option<PlacedNorm>, Error> {
            let weight = ops.place_vector(&vec![1.0; width])?;
            Ok(Some(PlacedNorm { weight, bias: ops.place_vector(&vec![0.0; width])? }))
        };
        let layer = |index: usize| -> Result<PlacedLayer, Error> {
            let (uvqk, output) =
                (shape(spec.uvqk_width(), spec.hidden), shape(spec.hidden, spec.gated_width()));
            Ok(PlacedLayer {
                input_norm: norm(spec.hidden)?,
                uvqk: ops.random(uvqk, WeightFormat::Bf16, 2 * index as u64)?,
                output_norm: norm(spec.value_width())?,
                output: ops.random(output, WeightFormat::Bf16, 2 * index as u64 + 1)?,
                bias: None,
            })
        };
        let layers = (0..layers).map(layer).collect::<Result<_, _>>()?;
        Ok(HstuStack { spec, layers })
    }

    pub fn spec(&self) -> &HstuLayerSpec {
        &self.spec
    }

    pub fn layers(&self) -> usize {
        self.layers.len()
    }

    /// How pages of this many tokens lie.
    pub fn page_layout(&self, page_tokens: usize, dtype: DType) -> PageLayout {
        let HstuLayerSpec { heads, key_dim, value_dim, .. } = self.spec;
        let layers = self.layers.len();
        PageLayout { layers, kv_heads: heads, page_tokens, key_dim, value_dim, dtype }
    }

    /// Workspace bytes that a step of this size, or a smaller one, takes.
    pub fn workspace_bytes(&self, ops: &Ops, layout: &PageLayout, size: HstuStepSize) -> usize {
        StackBuffers::bytes(ops, &self.spec, layout, size)
    }

    /// Runs all layers over `stream`, f32 `[tokens, hidden]`, and keeps the new keys and values.
    ///
    /// `row_scale`: what sums over keys are multiplied by, where it is not the model's divisor.
    pub fn forward(
        &self,
        ctx: HstuStepCtx<'_>,
        stream: ViewMut<'_>,
        kv: &mut HstuKv<'_>,
        times: Option<StepTimes<'_>>,
        row_scale: Option<View<'_>>,
    ) {
        self.run(ctx, stream, kv, times, row_scale, None);
    }

    /// As [`forward`](Self::forward) of a residual stack, for who looks at candidates alone:
    /// `candidates` are their rows, i32, ascending; the others of `stream` are not the result.
    pub fn forward_candidates(
        &self,
        ctx: HstuStepCtx<'_>,
        stream: ViewMut<'_>,
        kv: &mut HstuKv<'_>,
        times: Option<StepTimes<'_>>,
        candidates: View<'_>,
    ) {
        assert!(self.spec.residual, "the stream is added to");
        self.run(ctx, stream, kv, times, None, Some(candidates));
    }

    fn run(
        &self,
        ctx: HstuStepCtx<'_>,
        mut stream: ViewMut<'_>,
        kv: &mut HstuKv<'_>,
        times: Option<StepTimes<'_>>,
        row_scale: Option<View<'_>>,
        candidates: Option<View<'_>>,
    ) {
        let ([tokens, _], spec, ops) = (stream.dims(), &self.spec, ctx.ops);
        let size = kv.size();
        assert_eq!(size.tokens, tokens, "rows of a step");
        let mut buffers = StackBuffers::take(ctx.workspace, ops, spec, &kv.layout, size);
        for (index, layer) in self.layers.iter().enumerate() {
            let affine = layer.input_norm.as_ref().map(PlacedNorm::affine);
            let (delta, normed) = (buffers.delta.as_view(), buffers.normed.reborrow());
            match (index, spec.residual) {
                (0, _) => ops.layer_norm(stream.as_view(), affine, spec.eps, normed),
                (_, true) => {
                    ops.add_layer_norm(stream.reborrow(), delta, affine, spec.eps, normed);
                }
                (_, false) => ops.layer_norm(delta, affine, spec.eps, normed),
            }
            let is_last = index + 1 == self.layers.len();
            let rows = candidates.filter(|_| is_last);
            layer.attend(ctx, spec, index, &mut buffers, kv, times, row_scale, rows);
            let count = rows.map_or(tokens, |rows| rows.shape().count());
            if count == 0 {
                return;
            }
            let out = match is_last && !spec.residual {
                true => stream.reborrow(),
                false => buffers.delta.reborrow().first(count),
            };
            let gated = buffers.gated.as_view().rows(0..count);
            ops.project(gated, RowKinds::Prompt, &layer.output, out);
        }
        if spec.residual {
            let count = candidates.map_or(tokens, |rows| rows.shape().count());
            ops.add_rows(stream, candidates, buffers.delta.as_view().rows(0..count));
        }
    }
}

impl PlacedLayer {
    /// From the normalised input to what the output projection takes.
    #[allow(clippy::too_many_arguments)]
    fn attend(
        &self,
        ctx: HstuStepCtx<'_>,
        spec: &HstuLayerSpec,
        index: usize,
        buffers: &mut StackBuffers<'_>,
        kv: &mut HstuKv<'_>,
        times: Option<StepTimes<'_>>,
        row_scale: Option<View<'_>>,
        candidates: Option<View<'_>>,
    ) {
        let StackBuffers { normed, uvqk, attended, gated, scratch, .. } = buffers;
        let ops = ctx.ops;
        ops.project(normed.as_view(), RowKinds::Prompt, &self.uvqk, uvqk.reborrow());
        let widths = [spec.value_width(), spec.value_width(), spec.key_width(), spec.key_width()];
        let [u, v, q, k] = uvqk.reborrow().split_columns(widths);
        let bias = self.bias.as_ref().map(|bias| {
            let times = times.expect("layers with a bias by time get times");
            RelativeBias {
                by_position: &bias.by_position,
                by_time: &bias.by_time,
                buckets: &bias.buckets,
                row_times: times.rows,
                key_times: times.keys,
            }
        });
        let args = HstuAttendArgs {
            q,
            k,
            v,
            activates: spec.activated == Activated::All,
            layer: index,
            scale: spec.score_scale,
            bias,
            row_scale: row_scale.map_or(RowScale::DivideBy(spec.divisor), RowScale::Multiply),
            rows: match candidates {
                Some(_) => AttendedRows::Candidates,
                None => AttendedRows::All,
            },
            scratch: scratch.reborrow(),
            out: attended.reborrow(),
        };
        ctx.before_pages.iter().for_each(|wait| wait(index));
        ops.hstu_attend(args, kv);
        let count = candidates.map_or(attended.dims::<2>()[0], |rows| rows.shape().count());
        if count == 0 {
            return;
        }
        let args = GatedNormArgs {
            attention: attended.as_view(),
            u: u.as_view(),
            rows: candidates,
            activates: true,
            affine: self.output_norm.as_ref().map(PlacedNorm::affine),
            eps: spec.eps,
            form: spec.gated,
            extent: spec.norm_extent,
        };
        ops.gated_norm(&args, gated.reborrow().first(count));
    }
}

impl PlacedNorm {
    fn affine(&self) -> Affine<'_> {
        Affine { weight: &self.weight, bias: &self.bias }
    }
}

fn place_norm(ops: &Ops, norm: Option<NormTensors>) -> Result<Option<PlacedNorm>, Error> {
    let place = |norm: NormTensors| -> Result<PlacedNorm, Error> {
        let weight = ops.place_vector(&norm.weight)?;
        Ok(PlacedNorm { weight, bias: ops.place_vector(&norm.bias)? })
    };
    norm.map(place).transpose()
}
