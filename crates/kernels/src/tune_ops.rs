//! The ops that a model is tuned with: forward ones that leave what gradients need, and gradients.
//!
//! Having a [`TuneOps`] is the proof that the device has them all. Weights lie as in their file,
//! in any format: one form serves both directions, so none is kept twice. Everything else is f32
//! on the CPU; with [`Compute::Fast`](crate::Compute::Fast) products with weights and those of
//! attention round both sides to bf16.

use terrace_device::{BufferPool, View, ViewMut, WorkerPool};

use crate::attention::replay::{
    self, ChunkAt, KeptRows, ReplayGradients, ReplayQueries, RowGradients,
};
use crate::cpu::cpu_options::Compute;
use crate::cpu_ops::CpuOps;
use crate::elementwise::clear;
use crate::elementwise::dropout::{self, Dropout};
use crate::elementwise::gate::{self, Activation, GateGradients};
use crate::elementwise::rms_norm::{self, RmsNormGradients};
use crate::elementwise::rope::{self, RopeAngles, RopeStyle};
use crate::elementwise::rope_angles::{self, RopeAnglesArgs};
use crate::elementwise::{embed, scale_columns};
use crate::error::Error;
use crate::linear::backward;
use crate::linear::biased_weight::BiasedWeight;
use crate::linear::in_training;
use crate::linear::linear::Linear;
use crate::linear::lora::{self, LoraBranch, LoraGradients};
use crate::loss::cross_entropy::{self, HeadLossArgs};
use crate::op_clock::OpClock;
use crate::ops::{Ops, Table};

#[derive(Clone, Copy)]
pub struct TuneOps<'a> {
    cpu: &'a CpuOps,
    clock: Option<&'a OpClock>,
}

impl Ops {
    /// What a model is tuned with; an error if the device has no kernels for it.
    pub fn tuning(&self) -> Result<TuneOps<'_>, Error> {
        match &self.table {
            Table::Cpu(cpu) => Ok(TuneOps { cpu, clock: None }),
            Table::Cuda(_) => Err(Error::GradientsOnGpu),
        }
    }
}

impl<'a> TuneOps<'a> {
    /// The same ops, each of which adds its time to a clock.
    #[must_use]
    pub fn timed(self, clock: &'a OpClock) -> Self {
        TuneOps { clock: Some(clock), ..self }
    }
}

impl TuneOps<'_> {
    /// Most slots that a layer can have.
    pub const SLOTS_MOST: usize = replay::SLOTS_MOST;

    pub fn compute(&self) -> Compute {
        self.cpu.compute()
    }

    /// The host's threads, for work of the caller's between ops.
    pub fn workers(&self) -> &WorkerPool {
        self.cpu.workers()
    }

    /// Where arrays of a pass are, which come and go.
    pub fn memory(&self) -> &BufferPool {
        &self.cpu.memory
    }

    /// f32 zeros, of any shape
    pub fn clear(&self, x: ViewMut<'_>) {
        self.timing("clear", || clear::clear(&self.cpu.ctx, x));
    }

    /// Brings one product to the device as its file has it.
    pub fn place(&self, weight: BiasedWeight) -> Linear {
        Linear::of_weights(vec![weight])
    }

    /// Changes what is trained of a product in f32: its weight and its bias. Panics unless it was
    /// placed from a buffer that nobody else holds.
    pub fn change(&self, linear: &mut Linear, f: impl FnOnce(&mut [f32], Option<&mut [f32]>)) {
        let (weight, bias) = linear.trained_mut().expect("a trained weight is f32 and held once");
        f(weight, bias);
    }

    /// The weight of a product in f32, row by row.
    pub fn numbers<'l>(&self, linear: &'l Linear) -> Option<&'l [f32]> {
        let matrix = linear.only_matrix();
        matrix.rows_in_place(0..matrix.rows())
    }

    /// ids: i32 `[tokens]` · table: `[vocab, hidden]` · out: f32 `[tokens, hidden]`
    pub fn embed(&self, ids: View<'_>, table: &Linear, out: ViewMut<'_>) {
        self.timing("embed", || embed::embed(&self.cpu.ctx, ids, table.only_matrix(), out));
    }

    /// `d_table[id] += d_out` for each token · d_table: f32 `[vocab, hidden]`
    pub fn embed_gradient(&self, ids: View<'_>, d_out: View<'_>, d_table: ViewMut<'_>) {
        self.timing("embed_gradient", || embed::embed_gradient(&self.cpu.ctx, ids, d_out, d_table));
    }

    /// x, out: f32 `[rows, dim]` or `[rows, heads, dim]` · weight: f32 `[dim]`
    pub fn rms_norm(&self, x: View<'_>, weight: View<'_>, eps: f32, out: ViewMut<'_>) {
        self.timing("rms_norm", || rms_norm::rms_norm(&self.cpu.ctx, x, weight, eps, out));
    }

    pub fn rms_norm_gradients(&self, args: RmsNormGradients<'_>) {
        self.timing("rms_norm_gradients", || rms_norm::rms_norm_gradients(&self.cpu.ctx, args));
    }

    /// `sum += delta` · f32 `[rows, dim]`
    pub fn add(&self, sum: ViewMut<'_>, delta: View<'_>) {
        self.timing("add", || rms_norm::add(&self.cpu.ctx, sum, delta));
    }

    /// Some of x, the rest zeros · x, out: f32 `[rows, dim]`
    pub fn drop_out(&self, x: View<'_>, dropout: Dropout, out: ViewMut<'_>) {
        self.timing("drop_out", || dropout::drop_out(&self.cpu.ctx, x, dropout, out));
    }

    /// `x += added` · x: f32 `[rows, dim]` · added: f32 `[dim]`
    pub fn add_to_columns(&self, x: ViewMut<'_>, added: View<'_>) {
        self.timing("add_to_columns", || scale_columns::add_to_columns(&self.cpu.ctx, x, added));
    }

    /// `out = x * factors` · x, out: f32 `[rows, dim]` · factors: f32 `[dim]`
    pub fn scale_columns(&self, x: View<'_>, factors: View<'_>, out: ViewMut<'_>) {
        self.timing("scale_columns", || {
            scale_columns::scale_columns(&self.cpu.ctx, x, factors, out);
        });
    }

    /// `d_factors += Σ_rows d_out * x` · x, d_out: f32 `[rows, dim]` · d_factors: f32 `[dim]`
    pub fn factor_gradients(&self, x: View<'_>, d_out: View<'_>, d_factors: ViewMut<'_>) {
        self.timing("factor_gradients", || {
            scale_columns::factor_gradients(&self.cpu.ctx, x, d_out, d_factors);
        });
    }

    /// `out = x * weight^T + bias` · x: f32 `[tokens, columns]` · out: f32 `[tokens, rows]`
    pub fn project(&self, x: View<'_>, weight: &Linear, out: ViewMut<'_>) {
        self.timing("project", || in_training::project(&self.cpu.ctx, x, weight, out));
    }

    /// `out += scale * (x * a^T) * b^T`, leaving `x * a^T` in inner: f32 `[tokens, rank]`
    pub fn add_branch(
        &self,
        x: View<'_>,
        branch: LoraBranch<'_>,
        inner: ViewMut<'_>,
        out: ViewMut<'_>,
    ) {
        self.timing("add_branch", || lora::add_branch(&self.cpu.ctx, x, branch, inner, out));
    }

    pub fn lora_gradients(&self, branch: LoraBranch<'_>, args: LoraGradients<'_>) {
        self.timing("lora_gradients", || lora::lora_gradients(&self.cpu.ctx, branch, args));
    }

    /// norms: f32 `[rows]`, of the rows of `weight + scale * b * a`
    pub fn branch_row_norms(&self, weight: &Linear, branch: LoraBranch<'_>, norms: ViewMut<'_>) {
        self.timing("branch_row_norms", || {
            lora::branch_row_norms(&self.cpu.ctx, weight.only_matrix(), branch, norms);
        });
    }

    /// `d_x += d_out * weight`
    pub fn input_gradient(&self, d_out: View<'_>, weight: &Linear, d_x: ViewMut<'_>) {
        self.timing("input_gradient", || {
            in_training::input_gradient(&self.cpu.ctx, d_out, weight, d_x);
        });
    }

    /// `d_weight += d_out^T * x`
    pub fn weight_gradient(&self, d_out: View<'_>, x: View<'_>, d_weight: ViewMut<'_>) {
        self.timing("weight_gradient", || {
            backward::weight_gradient(&self.cpu.ctx, d_out, x, 1.0, d_weight);
        });
    }

    /// `d_bias += Σ_tokens d_out`
    pub fn bias_gradient(&self, d_out: View<'_>, d_bias: ViewMut<'_>) {
        self.timing("bias_gradient", || backward::bias_gradient(d_out, d_bias));
    }

    pub fn rope_angles(&self, args: RopeAnglesArgs<'_>) {
        self.timing("rope_angles", || rope_angles::rope_angles(&self.cpu.ctx, args));
    }

    /// x: f32 `[tokens, heads, dim]`, in place
    pub fn rope(&self, x: ViewMut<'_>, angles: RopeAngles<'_>, style: RopeStyle) {
        self.timing("rope", || rope::rope(&self.cpu.ctx, x, angles, style));
    }

    /// The gradient of what was rotated becomes that of what it was before.
    pub fn rope_gradient(&self, d_x: ViewMut<'_>, angles: RopeAngles<'_>, style: RopeStyle) {
        self.timing("rope_gradient", || rope::rope_gradient(&self.cpu.ctx, d_x, angles, style));
    }

    /// `out = activation(gate) * up`, all f32 `[tokens, dim]`
    pub fn gate(&self, gate: View<'_>, up: View<'_>, kind: Activation, out: ViewMut<'_>) {
        self.timing("gate", || gate::gate(&self.cpu.ctx, gate, up, kind, out));
    }

    pub fn gate_gradients(&self, args: GateGradients<'_>) {
        self.timing("gate_gradients", || gate::gate_gradients(&self.cpu.ctx, args));
    }

    /// Losses of a head's logits, and the gradients that are asked for.
    pub fn head_loss(&self, args: HeadLossArgs<'_>) {
        self.timing("head_loss", || cross_entropy::head_loss(&self.cpu.ctx, args));
    }

    /// Writes a chunk's keys and values into their slots, and keeps what was there; `slots` are
    /// i32 `[seqs * kv_heads, tokens]`.
    pub fn place_rows(
        &self,
        at: &ChunkAt,
        slots: View<'_>,
        rows: [View<'_>; 2],
        of_slots: [ViewMut<'_>; 2],
        positions: ViewMut<'_>,
        kept: KeptRows<'_>,
    ) {
        self.timing("place_rows", || {
            replay::place_rows(&self.cpu.ctx, at, slots, rows, of_slots, positions, kept);
        });
    }

    /// Undoes [`place_rows`](Self::place_rows); the gradients in the slots become the rows'.
    pub fn take_back_rows(
        &self,
        at: &ChunkAt,
        slots: View<'_>,
        kept: KeptRows<'_>,
        of_slots: [ViewMut<'_>; 2],
        positions: ViewMut<'_>,
        gradients: RowGradients<'_>,
    ) {
        self.timing("take_back_rows", || {
            let ctx = &self.cpu.ctx;
            replay::take_back_rows(ctx, at, slots, kept, of_slots, positions, gradients);
        });
    }

    /// out: f32 `[seqs * row_tokens, heads * dim]` · log_sums: f32 `[seqs * row_tokens, heads]`;
    /// the chunk's rows are written
    pub fn attend_slots(
        &self,
        queries: ReplayQueries<'_>,
        out: ViewMut<'_>,
        log_sums: ViewMut<'_>,
    ) {
        self.timing("attend_slots", || replay::attend(&self.cpu.ctx, queries, out, log_sums));
    }

    /// weights: f32 `[seqs * kv_heads, filled]`, what the chunk attended to
    pub fn weight_sums(
        &self,
        queries: ReplayQueries<'_>,
        log_sums: View<'_>,
        weights: ViewMut<'_>,
    ) {
        self.timing("weight_sums", || {
            replay::weight_sums(&self.cpu.ctx, queries, log_sums, weights);
        });
    }

    pub fn attend_slots_gradients(&self, args: ReplayGradients<'_>) {
        self.timing("attend_slots_gradients", || replay::attend_gradients(&self.cpu.ctx, args));
    }

    fn timing(&self, op: &'static str, f: impl FnOnce()) {
        match self.clock {
            Some(clock) => clock.time(op, f),
            None => f(),
        }
    }
}
