//! The ops of click-through models, as [`Ops`] has them for every device.
//!
//! A GPU has no kernels for them: [`Ops::check_ctr`] says so when a model is loaded, and nobody
//! gets further.

use terrace_device::{DType, View, ViewMut};

use super::activation::{self, CtrActivation};
use super::attend_sequences::{self, AttendSequencesArgs};
use super::combine::{self, CombineArgs};
use super::cross_step::{self, CrossStepArgs};
use super::dice::{self, DiceRule};
use super::multi_cross::{self, MultiCrossArgs};
use super::pool_rows::{self, PoolRowsArgs};
use super::reduce_rows::{self, Reduction};
use super::repeat::{self, Repeated};
use super::scale_shift::{self, ScaleShiftArgs};
use super::sequence_mask::{self, SequenceMaskArgs};
use super::{arrange, fm_order2, interact, softmax_rows, weight_multiply};
use crate::error::Error;
use crate::hstu::layer_norm::{self, Affine};
use crate::linear::linear::{Linear, LinearStorage};
use crate::linear::matmul::project_stacked;
use crate::linear::packed::{self, Finish, PackedProduct};
use crate::linear::row_kinds::RowKinds;
use crate::linear::vector::Vector;
use crate::ops::{Ops, Table};

impl Ops {
    /// An error if the device has no kernels for click-through models.
    pub fn check_ctr(&self) -> Result<(), Error> {
        match &self.table {
            Table::Cpu(_) => Ok(()),
            Table::Cuda(_) => Err(Error::CtrOnGpu),
        }
    }

    /// What the columns of a product's input are a multiple of, where it begins, and by how much
    /// its rows are apart: as tensor cores want them.
    pub fn product_multiple(&self) -> usize {
        match &self.table {
            Table::Cpu(_) => 1,
            Table::Cuda(ops) if ops.activation() == DType::F32 => 1,
            Table::Cuda(_) => 8,
        }
    }

    /// `out = activation(x * weight^T + bias)` · x: act `[rows, columns]` · out: act or f32
    /// `[rows, outputs]`
    pub fn project_activated(
        &self,
        x: View<'_>,
        weights: &Linear,
        activation: Option<CtrActivation>,
        out: ViewMut<'_>,
    ) {
        match &self.table {
            Table::Cpu(ops) => match weights.storage() {
                LinearStorage::Panels { weights, .. } => {
                    let (row_kinds, finish) = (RowKinds::Prompt, Finish::SideBySide(activation));
                    packed::project(&ops.ctx, PackedProduct { x, row_kinds, weights, finish, out });
                }
                storage => project_stacked(&ops.ctx, x, storage.weights(), activation, out),
            },
            Table::Cuda(_) => no_kernel("project_activated"),
        }
    }

    /// x: act `[rows, dim]` · out: act or f32 `[rows, dim]`
    pub fn activate_rows(&self, x: View<'_>, kind: CtrActivation, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => activation::activate_rows(&ops.ctx, x, kind, out),
            Table::Cuda(_) => no_kernel("activate_rows"),
        }
    }

    /// x: f32 or act `[_, _]` · out: f32 or act `[_, _]`, the same numbers in the same order
    pub fn arrange(&self, x: View<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => arrange::arrange(&ops.ctx, x, out),
            Table::Cuda(_) => no_kernel("arrange"),
        }
    }

    /// out: act `[rows, dim]`: zeros
    pub fn clear_rows(&self, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => ops.ctx.write_rows::<f32>(out, |_, out| out.fill(0.0)),
            Table::Cuda(_) => no_kernel("clear_rows"),
        }
    }

    /// out: act `[samples, slots * dim]`
    pub fn pool_rows(&self, args: &PoolRowsArgs<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => pool_rows::pool_rows(&ops.ctx, args, out),
            Table::Cuda(_) => no_kernel("pool_rows"),
        }
    }

    /// x: act `[samples, dim]` · embeddings: act `[samples, count * dim]` · out: act
    /// `[samples, interaction_width(dim, count)]`
    pub fn interact(&self, x: View<'_>, embeddings: View<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => interact::interact(&ops.ctx, x, embeddings, out),
            Table::Cuda(_) => no_kernel("interact"),
        }
    }

    /// out: act `[rows, dim]`
    pub fn multi_cross(&self, args: &MultiCrossArgs<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => multi_cross::multi_cross(&ops.ctx, args, out),
            Table::Cuda(_) => no_kernel("multi_cross"),
        }
    }

    /// out: act `[rows, dim]`
    pub fn cross_step(&self, args: &CrossStepArgs<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => cross_step::cross_step(&ops.ctx, args, out),
            Table::Cuda(_) => no_kernel("cross_step"),
        }
    }

    /// x: act `[rows, count]` · weights: f32 `[count * dim]` · out: act `[rows, count * dim]`
    pub fn weight_multiply(&self, x: View<'_>, weights: &Vector, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => weight_multiply::weight_multiply(&ops.ctx, x, weights, out),
            Table::Cuda(_) => no_kernel("weight_multiply"),
        }
    }

    /// x: act `[rows, count * dim]` · out: act `[rows, dim]`
    pub fn fm_order2(&self, x: View<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => fm_order2::fm_order2(&ops.ctx, x, out),
            Table::Cuda(_) => no_kernel("fm_order2"),
        }
    }

    /// x: act `[rows, count * dim]` · out: act `[rows, dim]`
    pub fn reduce_rows(&self, x: View<'_>, kind: Reduction, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => reduce_rows::reduce_rows(&ops.ctx, x, kind, out),
            Table::Cuda(_) => no_kernel("reduce_rows"),
        }
    }

    /// out: act or f32 `[rows, dim]`
    pub fn combine(&self, args: &CombineArgs<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => combine::combine(&ops.ctx, args, out),
            Table::Cuda(_) => no_kernel("combine"),
        }
    }

    /// x: act `[rows, dim]` · out: act or f32 `[rows, dim]`
    pub fn softmax_rows(&self, x: View<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => softmax_rows::softmax_rows(&ops.ctx, x, out),
            Table::Cuda(_) => no_kernel("softmax_rows"),
        }
    }

    /// x, out: act `[rows, dim]`; all rows are one batch
    pub fn dice(&self, x: View<'_>, rule: DiceRule, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => dice::dice(&ops.ctx, x, rule, out),
            Table::Cuda(_) => no_kernel("dice"),
        }
    }

    /// x: act `[rows, dim]` · out: act `[rows, factor * dim]` or `[factor * rows, dim]`
    pub fn repeat(&self, x: View<'_>, what: Repeated, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => repeat::repeat(&ops.ctx, x, what, out),
            Table::Cuda(_) => no_kernel("repeat"),
        }
    }

    /// out: act `[rows, dim]`
    pub fn scale_shift(&self, args: &ScaleShiftArgs<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => scale_shift::scale_shift(&ops.ctx, args, out),
            Table::Cuda(_) => no_kernel("scale_shift"),
        }
    }

    /// As [`Ops::layer_norm`] of activations · x, out: act `[rows, dim]`
    pub fn norm_rows(&self, x: View<'_>, affine: Affine<'_>, eps: f32, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => {
                layer_norm::layer_norm(&ops.ctx, x, Some(affine.row()), eps, out);
            }
            Table::Cuda(_) => no_kernel("norm_rows"),
        }
    }

    /// out: act `[samples, rows * columns]`
    pub fn sequence_mask(&self, args: &SequenceMaskArgs<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => sequence_mask::sequence_mask(&ops.ctx, args, out),
            Table::Cuda(_) => no_kernel("sequence_mask"),
        }
    }

    /// out: act `[samples, rows * heads * dim]`
    pub fn attend_sequences(&self, args: &AttendSequencesArgs<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => attend_sequences::attend_sequences(&ops.ctx, args, out),
            Table::Cuda(_) => no_kernel("attend_sequences"),
        }
    }
}

#[track_caller]
fn no_kernel(op: &str) -> ! {
    panic!("no CUDA kernel for {op}: Ops::check_ctr refuses this device")
}
