//! The table of ops, chosen once for a device.
//!
//! A step of a model is written once over these; each is one kernel or a few. Views must lie where
//! the device computes. "act" is the type of activations, [`Ops::activation`].

use std::sync::Arc;

use terrace_device::{DType, Device, View, ViewMut, WorkerPool};

use crate::arithmetic_class::ArithmeticClass;
use crate::attention::attend_args::{AttendArgs, AttendScratch};
use crate::attention::dense;
use crate::attention::dense::cuda::{AttentionKernels, PureScratch};
use crate::attention::slots;
use crate::attention::slots::cuda::ScratchColumns;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::cpu_options::{Compute, CpuOptions};
use crate::cpu_ops::CpuOps;
use crate::cuda::{CudaOps, CudaOptions};
use crate::elementwise::rope_angles::RopeAnglesArgs;
use crate::elementwise::{embed, gate, gather_rows, rms_norm, rope_angles};
use crate::error::Error;
use crate::linear::biased_weight::BiasedWeight;
use crate::linear::gated_args::GatedArgs;
use crate::linear::linear::{Linear, LinearShape, LinearStorage, TableUse};
use crate::linear::matmul::product::Epilogue;
use crate::linear::matmul::project_stacked;
use crate::linear::matrix::Matrix;
use crate::linear::packed::{self, Finish, PackedProduct};
use crate::linear::place_on_cpu::{place_on_cpu, random_on_cpu};
use crate::linear::row_kinds::RowKinds;
use crate::linear::vector::Vector;
use crate::linear::weight_format::WeightFormat;
use crate::pages::choose_slots;
use crate::pages::copy_pages;
use crate::pages::kv_layout::{GroupKv, KvLayout};
use crate::pages::page_layout::PageLayout;
use crate::pages::paged_kv::PagedKv;
use crate::pages::slot_kv::SlotKv;
use crate::pages::slot_layout::SlotLayout;

/// Which device it is for is known inside this crate alone: what others do on one device only is an
/// op here too, or has a type of its own.
pub struct Ops {
    pub(crate) table: Table,
}

pub(crate) enum Table {
    Cpu(Box<CpuOps>),
    Cuda(Box<CudaOps>),
}

impl From<CpuOps> for Ops {
    fn from(ops: CpuOps) -> Ops {
        Ops { table: Table::Cpu(Box::new(ops)) }
    }
}

impl Ops {
    /// Widest row a product can have.
    pub const MAX_COLUMNS: usize = CpuCtx::MAX_COLUMNS;
    /// Widest head attention can have.
    pub const MAX_HEAD_DIM: usize = CpuCtx::MAX_HEAD_DIM;
    /// Most query heads that can share a kv head.
    pub const MAX_GROUP_HEADS: usize = CpuCtx::MAX_GROUP_HEADS;

    pub fn cpu(options: CpuOptions) -> Result<Ops, Error> {
        CpuOps::new(options).map(Ops::from)
    }

    pub fn cuda(options: CudaOptions) -> Result<Ops, Error> {
        let table = Table::Cuda(Box::new(CudaOps::new(options)?));
        Ok(Ops { table })
    }

    pub fn device(&self) -> Device {
        match &self.table {
            Table::Cpu(_) => Device::Cpu,
            Table::Cuda(ops) => Device::Cuda(Arc::clone(ops.device())),
        }
    }

    /// The host's threads, for work of the caller's between ops.
    pub fn workers(&self) -> &WorkerPool {
        match &self.table {
            Table::Cpu(ops) => ops.workers(),
            Table::Cuda(ops) => ops.workers(),
        }
    }

    /// The type of activations; sums and the residual stream are f32 everywhere.
    pub fn activation(&self) -> DType {
        match &self.table {
            Table::Cpu(_) => DType::F32,
            Table::Cuda(ops) => ops.activation(),
        }
    }

    /// Whether a quantised matrix becomes plain numbers on the device, which has no kernel for it.
    pub fn widens(&self, matrix: &Matrix) -> bool {
        match &self.table {
            Table::Cpu(_) => false,
            Table::Cuda(ops) => ops.widens(matrix),
        }
    }

    /// Which computations give the same bits as these ops.
    pub fn arithmetic_class(&self) -> ArithmeticClass {
        match &self.table {
            Table::Cpu(ops) => ArithmeticClass::cpu(ops.level(), ops.compute()),
            Table::Cuda(ops) => ops.arithmetic_class(),
        }
    }

    /// Whether rows are computed by where they come from.
    pub fn distinguishes_row_kinds(&self) -> bool {
        matches!(&self.table, Table::Cpu(ops) if ops.compute() == Compute::Fast)
    }

    /// Brings stacked products to the device.
    pub fn place(&self, weights: Vec<BiasedWeight>) -> Result<Linear, Error> {
        match &self.table {
            Table::Cpu(ops) => place_on_cpu(&ops.ctx, weights, None),
            Table::Cuda(ops) => ops.place(&weights),
        }
    }

    /// Brings an embedding table to the device.
    pub fn place_table(&self, weight: Matrix, used: TableUse) -> Result<Linear, Error> {
        let biased = BiasedWeight { weight, bias: None };
        match &self.table {
            Table::Cpu(ops) => place_on_cpu(&ops.ctx, vec![biased], Some(used)),
            Table::Cuda(ops) => ops.place(&[biased]),
        }
    }

    /// Brings the two products of a gated unit to the device, for [`Ops::project_gated`].
    pub fn place_gated(&self, gate: BiasedWeight, up: BiasedWeight) -> Result<Linear, Error> {
        assert_eq!(gate.weight.rows(), up.weight.rows(), "rows of gate and up");
        match &self.table {
            Table::Cpu(ops) => place_on_cpu(&ops.ctx, vec![gate, up], None),
            Table::Cuda(ops) => ops.place_gated(gate, up),
        }
    }

    pub fn place_vector(&self, values: &[f32]) -> Result<Vector, Error> {
        match &self.table {
            Table::Cpu(_) => Vector::on_cpu(values),
            Table::Cuda(ops) => Vector::on_cuda(ops.device(), values),
        }
    }

    /// Random weights where the device wants them: for measurements.
    pub fn random(
        &self,
        shape: LinearShape,
        format: WeightFormat,
        seed: u64,
    ) -> Result<Linear, Error> {
        match &self.table {
            Table::Cpu(ops) => random_on_cpu(&ops.ctx, shape, format, seed),
            Table::Cuda(ops) => ops.random(shape, format, seed),
        }
    }

    /// Says in which order a step computes products, so that one can fetch the first weights of the
    /// next; once, when all are placed.
    pub fn link(&self, order: &[&Linear]) {
        match &self.table {
            Table::Cpu(_) => {}
            Table::Cuda(_) => {
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
        match &self.table {
            Table::Cpu(ops) => {
                assert!(sampled.is_none(), "on the CPU every id is known");
                embed::embed(&ops.ctx, ids, table.table(), out);
            }
            Table::Cuda(ops) => ops.products.embed(ids, sampled, table.cuda().only(), out),
        }
    }

    /// x: f32 `[rows, dim]` · weight: f32 `[dim]` · out: act `[rows, dim]`
    pub fn rms_norm(&self, x: View<'_>, weight: &Vector, eps: f32, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => rms_norm::rms_norm(&ops.ctx, x, weight.view(), eps, out),
            Table::Cuda(ops) => ops.rms_norm.rms_norm(x, weight.view(), eps, out),
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
        match &self.table {
            Table::Cpu(ops) => {
                rms_norm::add_rms_norm(&ops.ctx, sum, delta, weight.view(), eps, out);
            }
            Table::Cuda(ops) => ops.rms_norm.add_rms_norm(sum, delta, weight.view(), eps, out),
        }
    }

    /// `out = x * weight^T + bias` · x: act `[tokens, columns]` · out: act or f32 `[tokens, rows]`
    ///
    /// Where rows come from decides how the CPU computes them; a GPU computes all alike.
    pub fn project(
        &self,
        x: View<'_>,
        row_kinds: RowKinds<'_>,
        weights: &Linear,
        out: ViewMut<'_>,
    ) {
        let [tokens, _] = x.dims();
        assert_eq!(out.dims(), [tokens, weights.rows()], "out of project");
        match &self.table {
            Table::Cpu(ops) => match weights.storage() {
                LinearStorage::Panels { weights, .. } => {
                    let finish = Finish::SideBySide;
                    packed::project(&ops.ctx, PackedProduct { x, row_kinds, weights, finish, out });
                }
                storage => project_stacked(&ops.ctx, x, storage.weights(), out),
            },
            Table::Cuda(ops) => ops.project(x, weights.cuda(), Epilogue::None, out),
        }
    }

    pub fn project_gated(&self, args: GatedArgs<'_>) {
        let [_, width] = args.out.dims();
        assert_eq!(args.weights.rows(), 2 * width, "rows of gate and up");
        let ops = match &self.table {
            Table::Cpu(ops) => ops,
            Table::Cuda(ops) => return ops.project_gated(args),
        };
        let GatedArgs { x, row_kinds, weights, activation, mut both, out } = args;
        match weights.storage() {
            LinearStorage::Panels { weights, .. } => {
                let finish = Finish::Gated(activation);
                packed::project(&ops.ctx, PackedProduct { x, row_kinds, weights, finish, out });
            }
            storage => {
                project_stacked(&ops.ctx, x, storage.weights(), both.reborrow());
                let both = both.as_view();
                let [gates, ups] = [0, width].map(|start| both.columns(start, width));
                gate::gate(&ops.ctx, gates, ups, activation, out);
            }
        }
    }

    pub fn rope_angles(&self, args: RopeAnglesArgs<'_>) {
        match &self.table {
            Table::Cpu(ops) => rope_angles::rope_angles(&ops.ctx, args),
            Table::Cuda(ops) => ops.rope_angles.rope_angles(args),
        }
    }

    /// The memory that one token of [`Ops::attend`] works in.
    pub fn attend_scratch(&self, layout: &KvLayout, heads: usize) -> AttendScratch {
        match (&self.table, layout) {
            (Table::Cpu(_), KvLayout::Dense(layout)) => AttendScratch {
                dtype: layout.dtype,
                columns: dense::live_widths(layout).iter().sum(),
            },
            (Table::Cpu(_), KvLayout::Slots(layout)) => {
                AttendScratch { dtype: DType::F32, columns: heads * layout.key_dim }
            }
            (Table::Cuda(_), KvLayout::Dense(layout)) => AttentionKernels::scratch(layout, heads),
            (Table::Cuda(_), KvLayout::Slots(layout)) => {
                ScratchColumns::new(layout, heads).wanted()
            }
        }
    }

    /// Of the rows that `kv` has the sequences of.
    pub fn attend(&self, args: AttendArgs<'_>, kv: &mut GroupKv<'_>) {
        match (&self.table, kv) {
            (Table::Cpu(ops), GroupKv::Dense(kv)) => dense::attend(&ops.ctx, args, kv),
            (Table::Cpu(ops), GroupKv::Slots(kv)) => slots::attend_slots(&ops.ctx, args, kv),
            (Table::Cuda(ops), GroupKv::Dense(kv)) => ops.attention.attend(&args, kv),
            (Table::Cuda(ops), GroupKv::Slots(kv)) => ops.slots.attend(&args, kv),
        }
    }

    /// The memory that one token of [`Ops::attend_pure`] works in.
    pub fn pure_scratch(&self, layout: &PageLayout, heads: usize) -> AttendScratch {
        match &self.table {
            Table::Cpu(_) => self.attend_scratch(&KvLayout::Dense(*layout), heads),
            Table::Cuda(_) => PureScratch::new(layout, heads).wanted(),
        }
    }

    /// As [`Ops::attend`] over pages, as a pure step: all past slots and live rows are read before
    /// the live rows are written to their slots. A GPU's `attend` writes first and is held to this;
    /// the CPU's is the same.
    pub fn attend_pure(&self, args: AttendArgs<'_>, kv: &mut PagedKv<'_>) {
        match &self.table {
            Table::Cpu(ops) => dense::attend(&ops.ctx, args, kv),
            Table::Cuda(ops) => ops.attention.attend_pure(&args, kv),
        }
    }

    /// Loads what slots of this layout need: before the first step, where nothing is loaded or
    /// taken any more. An error if the device has no kernels for them.
    pub fn prepare_slots(&self, layout: &SlotLayout) -> Result<(), Error> {
        match &self.table {
            Table::Cpu(_) => Ok(()),
            Table::Cuda(ops) => ops.slots.prepare(layout),
        }
    }

    /// Gives the live rows of a step their slots, in all layers of a group.
    pub fn choose_slots(&self, kv: &mut SlotKv<'_>) {
        match &self.table {
            Table::Cpu(ops) => choose_slots::choose_slots(&ops.ctx, kv),
            Table::Cuda(ops) => ops.slots.choose_slots(kv),
        }
    }

    /// x: act `[tokens, dim]` · rows: i32 `[picked]` · out: act `[picked, dim]`
    pub fn gather_rows(&self, x: View<'_>, rows: View<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(_) => gather_rows::gather_rows(x, rows, out),
            Table::Cuda(ops) => ops.gather_rows.gather_rows(x, rows, out),
        }
    }

    /// Copies whole pages · pages: u8 `[pages, page_bytes]` · pairs: i32 `[copies, 2]` (from, to)
    pub fn copy_pages(&self, pages: ViewMut<'_>, pairs: View<'_>) {
        match &self.table {
            Table::Cpu(_) => copy_pages::copy_pages(pages, pairs),
            Table::Cuda(ops) => ops.copy_pages.copy_pages(pages, pairs),
        }
    }
}
