//! The table of ops, chosen once for a device.
//!
//! A step of a model is written once over these; each is one kernel or a few. Views must lie where
//! the device computes. "act" is the type of activations, [`Ops::activation`].

use std::sync::Arc;

use terrace_device::{Buffer, DType, Device, View, ViewMut, WorkerPool};

use crate::attend::{AttendArgs, AttendScratch};
use crate::choose_slots;
use crate::conformance::Random;
use crate::cpu_ops::{AttentionArgs, Compute, CpuOps, CpuOptions, Projection};
use crate::cuda::{CudaOps, CudaOptions};
use crate::error::Error;
use crate::linear::{Linear, LinearHome, LinearPart, LinearShape, TableUse, Vector};
use crate::matrix::Matrix;
use crate::paged_attention::cuda::AttentionKernels;
use crate::paged_kv::PageLayout;
use crate::rope_angles::RopeFrequencies;
use crate::row_origins::RowOrigins;
use crate::slot_attention::cuda::ScratchColumns;
use crate::slot_attention::{self, AttendSlotsArgs};
use crate::slot_kv::SlotKv;
use crate::slot_layout::SlotLayout;
use crate::strips::{self, Finish, StripMatrix, StripPart, StripProduct};
use crate::weight_format::WeightFormat;

/// Which elements of a head a rotation pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// Element `i` with `i + dim / 2` (safetensors models).
    Halves,
    /// Element `2 i` with `2 i + 1` (Llama in GGUF files).
    Interleaved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    Silu,
    GeluTanh,
}

/// Cosine and sine of each live row's rotation, each f32 `[tokens, rotary_dim / 2]`.
#[derive(Clone, Copy)]
pub struct RopeAngles<'a> {
    pub cos: View<'a>,
    pub sin: View<'a>,
}

pub enum Ops {
    Cpu(CpuOps),
    Cuda(Box<CudaOps>),
}

impl Ops {
    /// Widest row a product can have.
    pub const MAX_COLUMNS: usize = CpuOps::MAX_COLUMNS;
    /// Widest head attention can have.
    pub const MAX_HEAD_DIM: usize = CpuOps::MAX_HEAD_DIM;
    /// Most query heads that can share a kv head.
    pub const MAX_GROUP_HEADS: usize = CpuOps::MAX_GROUP_HEADS;

    pub fn cpu(options: CpuOptions) -> Result<Ops, Error> {
        CpuOps::new(options).map(Ops::Cpu)
    }

    pub fn cuda(options: CudaOptions) -> Result<Ops, Error> {
        CudaOps::new(options).map(Box::new).map(Ops::Cuda)
    }

    pub fn device(&self) -> Device {
        match self {
            Ops::Cpu(_) => Device::Cpu,
            Ops::Cuda(ops) => Device::Cuda(Arc::clone(ops.device())),
        }
    }

    /// The host's threads, for work of the caller's between ops.
    pub fn workers(&self) -> &WorkerPool {
        match self {
            Ops::Cpu(ops) => ops.workers(),
            Ops::Cuda(ops) => ops.workers(),
        }
    }

    /// The type of activations; sums and the residual stream are f32 everywhere.
    pub fn activation(&self) -> DType {
        match self {
            Ops::Cpu(_) => DType::F32,
            Ops::Cuda(ops) => ops.activation(),
        }
    }

    /// Whether a quantised matrix becomes plain numbers on the device, which has no kernel for it.
    pub fn widens(&self, matrix: &Matrix) -> bool {
        match self {
            Ops::Cpu(_) => false,
            Ops::Cuda(ops) => ops.widens(matrix),
        }
    }

    /// Whether rows are computed by where they come from.
    pub fn tells_origins_apart(&self) -> bool {
        matches!(self, Ops::Cpu(ops) if ops.compute() == Compute::Fast)
    }

    /// Brings stacked products to the device.
    pub fn place(&self, parts: Vec<LinearPart>) -> Result<Linear, Error> {
        match self {
            Ops::Cpu(ops) => place_on_cpu(ops, parts, None),
            Ops::Cuda(ops) => ops.place(&parts),
        }
    }

    /// Brings an embedding table to the device.
    pub fn place_table(&self, weight: Matrix, used: TableUse) -> Result<Linear, Error> {
        let part = LinearPart { weight, bias: None };
        match self {
            Ops::Cpu(ops) => place_on_cpu(ops, vec![part], Some(used)),
            Ops::Cuda(ops) => ops.place(&[part]),
        }
    }

    /// Brings the two products of a gated unit to the device, for [`Ops::project_gated`].
    pub fn place_gated(&self, gate: LinearPart, up: LinearPart) -> Result<Linear, Error> {
        assert_eq!(gate.weight.rows(), up.weight.rows(), "rows of gate and up");
        match self {
            Ops::Cpu(ops) => place_on_cpu(ops, vec![gate, up], None),
            Ops::Cuda(ops) => ops.place_gated(gate, up),
        }
    }

    pub fn place_vector(&self, values: &[f32]) -> Result<Vector, Error> {
        match self {
            Ops::Cpu(_) => Vector::on_cpu(values),
            Ops::Cuda(ops) => Vector::on_cuda(ops.device(), values),
        }
    }

    /// Random weights where the device wants them: for measurements.
    pub fn random(
        &self,
        shape: LinearShape,
        format: WeightFormat,
        seed: u64,
    ) -> Result<Linear, Error> {
        match self {
            Ops::Cpu(ops) => {
                let mut random = Random::new(seed);
                let parts = if shape.gated { 2 } else { 1 };
                let rows = shape.rows / parts;
                let part = |_| random_part(&mut random, format, rows, shape.columns);
                let parts = (0..parts).map(part).collect::<Result<_, _>>()?;
                place_on_cpu(ops, parts, shape.table)
            }
            Ops::Cuda(ops) => ops.random(shape, format, seed),
        }
    }

    /// Says in which order a step computes products, so that one can fetch the first weights of the
    /// next; once, when all are placed.
    pub fn link(&self, order: &[&Linear]) {
        match self {
            Ops::Cpu(_) => {}
            Ops::Cuda(_) => {
                for pair in order.windows(2) {
                    pair[0].cuda().link(pair[1].cuda());
                }
            }
        }
    }

    /// ids: i32 `[tokens]`, where -1 - i stands for the i-th of `sampled`, which only a GPU's step
    /// may have · table: `[vocab, hidden]` · out: f32 `[tokens, hidden]`
    pub fn embed(
        &self,
        ids: View<'_>,
        sampled: Option<View<'_>>,
        table: &Linear,
        out: ViewMut<'_>,
    ) {
        match self {
            Ops::Cpu(ops) => {
                assert!(sampled.is_none(), "on the CPU every id is known");
                ops.embed(ids, table.table(), out);
            }
            Ops::Cuda(ops) => ops.embed(ids, sampled, table.cuda(), out),
        }
    }

    /// x: f32 `[rows, dim]` · weight: f32 `[dim]` · out: act `[rows, dim]`
    pub fn rms_norm(&self, x: View<'_>, weight: &Vector, eps: f32, out: ViewMut<'_>) {
        match self {
            Ops::Cpu(ops) => ops.rms_norm(x, weight.view(), eps, out),
            Ops::Cuda(ops) => ops.rms_norm(x, weight.view(), eps, out),
        }
    }

    /// `sum += delta`, then `out = rms_norm(sum)` · sum, delta: f32 `[rows, dim]` · out: act
    pub fn add_rms_norm(
        &self,
        sum: ViewMut<'_>,
        delta: View<'_>,
        weight: &Vector,
        eps: f32,
        out: ViewMut<'_>,
    ) {
        match self {
            Ops::Cpu(ops) => ops.add_rms_norm(sum, delta, weight.view(), eps, out),
            Ops::Cuda(ops) => ops.add_rms_norm(sum, delta, weight.view(), eps, out),
        }
    }

    /// `out = x * weight^T + bias` · x: act `[tokens, columns]` · out: act or f32 `[tokens, rows]`
    ///
    /// Where rows come from decides how the CPU computes them; a GPU computes all alike.
    pub fn project(
        &self,
        x: View<'_>,
        origins: RowOrigins<'_>,
        weights: &Linear,
        out: ViewMut<'_>,
    ) {
        let [tokens, _] = x.dims();
        assert_eq!(out.dims(), [tokens, weights.rows()], "out of project");
        match self {
            Ops::Cpu(ops) => match weights.home() {
                LinearHome::Strips { parts, .. } => {
                    let finish = Finish::SideBySide;
                    strips::project(ops, StripProduct { x, origins, parts, finish, out });
                }
                home => project_parts(ops, x, home.parts(), out),
            },
            Ops::Cuda(ops) => ops.project(x, weights.cuda(), out),
        }
    }

    /// `out = activation(gate(x)) * up(x)` · x: act `[tokens, columns]` · both: act
    /// `[tokens, 2 width]`, memory to work in · out: act `[tokens, width]`
    pub fn project_gated(
        &self,
        x: View<'_>,
        origins: RowOrigins<'_>,
        weights: &Linear,
        kind: Activation,
        mut both: ViewMut<'_>,
        out: ViewMut<'_>,
    ) {
        let [_, width] = out.dims();
        assert_eq!(weights.rows(), 2 * width, "rows of gate and up");
        match self {
            Ops::Cpu(ops) => match weights.home() {
                LinearHome::Strips { parts, .. } => {
                    let finish = Finish::Gated(kind);
                    strips::project(ops, StripProduct { x, origins, parts, finish, out });
                }
                home => {
                    project_parts(ops, x, home.parts(), both.reborrow());
                    let both = both.as_view();
                    ops.gate(both.columns(0, width), both.columns(width, width), kind, out);
                }
            },
            Ops::Cuda(ops) => ops.project_gated(x, weights.cuda(), kind, both, out),
        }
    }

    /// positions: i32 `[tokens]` · cos, sin: f32 `[tokens, rotary_dim / 2]`, both multiplied by
    /// `scale`.
    pub fn rope_angles(
        &self,
        positions: View<'_>,
        frequencies: RopeFrequencies<'_>,
        scale: f32,
        cos: ViewMut<'_>,
        sin: ViewMut<'_>,
    ) {
        match self {
            Ops::Cpu(ops) => ops.rope_angles(positions, frequencies, scale, cos, sin),
            Ops::Cuda(ops) => ops.rope_angles(positions, frequencies, scale, cos, sin),
        }
    }

    /// The memory that one token of [`Ops::attend`] works in.
    pub fn attend_scratch(&self, layout: &PageLayout, heads: usize) -> AttendScratch {
        match self {
            Ops::Cpu(_) => {
                AttendScratch { dtype: layout.dtype, columns: live_widths(layout).iter().sum() }
            }
            Ops::Cuda(_) => AttentionKernels::scratch(layout, heads),
        }
    }

    pub fn attend(&self, args: AttendArgs<'_, '_>) {
        match self {
            Ops::Cpu(ops) => attend_on_cpu(ops, args),
            Ops::Cuda(ops) => ops.attend(args),
        }
    }

    /// Gives the live rows of a step their slots, in all layers of a group.
    pub fn choose_slots(&self, kv: &mut SlotKv<'_>) {
        match self {
            Ops::Cpu(ops) => choose_slots::choose_slots(ops, kv),
            Ops::Cuda(ops) => ops.choose_slots(kv),
        }
    }

    /// The memory that one token of [`Ops::attend_slots`] works in.
    pub fn attend_slots_scratch(&self, layout: &SlotLayout, heads: usize) -> AttendScratch {
        match self {
            Ops::Cpu(_) => AttendScratch { dtype: DType::F32, columns: heads * layout.key_dim },
            Ops::Cuda(_) => ScratchColumns::new(layout, heads).wanted(),
        }
    }

    pub fn attend_slots(&self, args: AttendSlotsArgs<'_, '_>) {
        match self {
            Ops::Cpu(ops) => slot_attention::attend_slots(ops, args),
            Ops::Cuda(ops) => ops.attend_slots(&args),
        }
    }

    /// x: act `[tokens, dim]` · rows: i32 `[picked]` · out: act `[picked, dim]`
    pub fn gather_rows(&self, x: View<'_>, rows: View<'_>, out: ViewMut<'_>) {
        match self {
            Ops::Cpu(ops) => ops.gather_rows(x, rows, out),
            Ops::Cuda(ops) => ops.gather_rows(x, rows, out),
        }
    }

    /// Copies whole pages · pages: u8 `[pages, page_bytes]` · pairs: i32 `[copies, 2]` (from, to)
    pub fn copy_pages(&self, pages: ViewMut<'_>, pairs: View<'_>) {
        match self {
            Ops::Cpu(ops) => ops.copy_pages(pages, pairs),
            Ops::Cuda(ops) => ops.copy_pages(pages, pairs),
        }
    }
}

/// Packs weights for the default arithmetic; a table that is only looked up stays as it is.
fn place_on_cpu(
    ops: &CpuOps,
    parts: Vec<LinearPart>,
    table: Option<TableUse>,
) -> Result<Linear, Error> {
    // Checks that the parts fit each other.
    let linear = Linear::of_parts(parts);
    if ops.compute() == Compute::F32 || table == Some(TableUse::LookUp) {
        return Ok(linear);
    }
    let parts = linear.into_parts();
    let table = table.map(|_| parts[0].weight.clone());
    let pack = |part: LinearPart| {
        let weight = StripMatrix::pack(&part.weight, ops.workers())?;
        part.weight.unload();
        Ok(StripPart { weight, bias: part.bias })
    };
    Ok(Linear::of_strips(parts.into_iter().map(pack).collect::<Result<_, Error>>()?, table))
}

fn random_part(
    random: &mut Random,
    format: WeightFormat,
    rows: usize,
    columns: usize,
) -> Result<LinearPart, Error> {
    let bytes = random.weights(format, rows * columns);
    let mut buffer = Buffer::zeroed(bytes.len(), "random weights")?;
    buffer.bytes_mut().copy_from_slice(&bytes);
    let weight = Matrix::new(format, rows, columns, Arc::new(buffer));
    Ok(LinearPart { weight, bias: None })
}

fn project_parts(ops: &CpuOps, x: View<'_>, parts: &[LinearPart], mut out: ViewMut<'_>) {
    let mut products = Vec::with_capacity(parts.len());
    let mut rest = Some(out.reborrow());
    for part in parts {
        let whole = rest.take().expect("widths were checked");
        let [_, columns] = whole.dims();
        let rows = part.weight.rows();
        let [mine, others] = whole.split_columns([rows, columns - rows]);
        let bias = part.bias.as_deref().map(|bias| View::of(bias, [rows]));
        products.push(Projection { weight: &part.weight, bias, out: mine });
        rest = Some(others);
    }
    ops.project(x, &mut products);
}

/// Elements of one token's live keys and values.
fn live_widths(layout: &PageLayout) -> [usize; 2] {
    [layout.key_dim, layout.value_dim].map(|dim| layout.kv_heads * layout.live_row(dim))
}

fn attend_on_cpu(ops: &CpuOps, args: AttendArgs<'_, '_>) {
    let widths = args.widths();
    let AttendArgs { qkv, heads, angles, rope_style, norm_eps, kv, layer, out, .. } = args;
    let kv_heads = kv.layout.kv_heads;
    let [query, key, value] = qkv.split_columns(widths);
    let (mut query, mut key) = (query.split_heads(heads), key.split_heads(kv_heads));
    if let Some(norm) = args.query_norm {
        ops.rms_norm_heads(query.reborrow(), norm.view(), norm_eps);
    }
    if let Some(norm) = args.key_norm {
        ops.rms_norm_heads(key.reborrow(), norm.view(), norm_eps);
    }
    ops.rope(query.reborrow(), angles, rope_style);
    ops.rope(key.reborrow(), angles, rope_style);
    let [live_k, live_v] = args.scratch.split_columns(live_widths(&kv.layout));
    let (mut live_k, mut live_v) = (live_k.split_heads(kv_heads), live_v.split_heads(kv_heads));
    ops.cast(key.as_view(), live_k.reborrow());
    ops.cast(value.as_view().split_heads(kv_heads), live_v.reborrow());
    ops.paged_attention(AttentionArgs {
        q: query.as_view(),
        origins: args.origins,
        live_k: live_k.as_view(),
        live_v: live_v.as_view(),
        kv,
        layer,
        scale: args.scale,
        window: args.window,
        out: out.split_heads(heads),
    });
    ops.commit(live_k.as_view(), live_v.as_view(), kv, layer);
}
