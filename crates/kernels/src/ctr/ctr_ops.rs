//! The ops of click-through models, as [`Ops`] has them for every device.

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
use crate::gather::hot_cache::HostHotCache;
use crate::gather::pool_cached::{self, PoolHostArgs};
use crate::hstu::layer_norm::{self, Affine};
use crate::linear::biased_weight::BiasedWeight;
use crate::linear::fixed_point::{self, FixedProduct};
use crate::linear::linear::{Linear, LinearStorage};
use crate::linear::matmul::product::Epilogue;
use crate::linear::place_on_cpu::place_product_on_cpu;
use crate::linear::row_kinds::RowKinds;
use crate::linear::vector::Vector;
use crate::ops::{Ops, Table};

impl Ops {
    /// Loads what click-through models need: before the first step, where nothing is loaded or
    /// taken any more. An error if the device has no kernels for them.
    pub fn check_ctr(&self) -> Result<(), Error> {
        match &self.table {
            Table::Cpu(_) => Ok(()),
            Table::Cuda(ops) => ops.load_ctr().map(|_| ()),
        }
    }

    /// What the columns of a product's input are a multiple of, where it begins, and by how much
    /// its rows are apart: as the kernels that stream
    /// weights want them.
    pub fn product_multiple(&self) -> usize {
        match &self.table {
            Table::Cpu(_) => 1,
            Table::Cuda(ops) if ops.activation() == DType::F32 => 1,
            Table::Cuda(_) => 32,
        }
    }

    /// Brings a weight to the device, for [`Ops::project_activated`].
    pub fn place_product(&self, weight: BiasedWeight) -> Result<Linear, Error> {
        match &self.table {
            Table::Cpu(ops) => place_product_on_cpu(&ops.ctx, weight),
            Table::Cuda(ops) => ops.place(&[weight]),
        }
    }

    /// `out = activation(x * weight^T + bias)` · x: act `[rows, columns]` · out: act or f32
    /// `[rows, outputs]`
    pub fn project_activated(
        &self,
        x: View<'_>,
        weights: &Linear,
        activation: Option<CtrActivation>,
        mut out: ViewMut<'_>,
    ) {
        match &self.table {
            Table::Cpu(ops) => {
                let mut left = activation;
                let mut take_relu = || left.take_if(|it| *it == CtrActivation::Relu).is_some();
                match weights.storage() {
                    LinearStorage::FixedPoint(matrix) => {
                        let (relu, out) = (take_relu(), out.reborrow());
                        fixed_point::project(&ops.ctx, FixedProduct { x, matrix, relu, out });
                    }
                    LinearStorage::FewColumns(matrix) => {
                        matrix.project(&ops.ctx, x, take_relu(), out.reborrow());
                    }
                    _ => self.project(x, RowKinds::Prompt, weights, out.reborrow()),
                }
                if let Some(kind) = left {
                    activation::activate_in_place(&ops.ctx, out, kind);
                }
            }
            Table::Cuda(ops) => {
                let (epilogue, left) = match activation {
                    None => (Epilogue::None, None),
                    Some(CtrActivation::Relu) => (Epilogue::Relu, None),
                    Some(CtrActivation::Sigmoid) => (Epilogue::Sigmoid, None),
                    other => (Epilogue::None, other),
                };
                ops.project(x, weights.cuda(), epilogue, out.reborrow());
                if let Some(kind) = left {
                    ops.ctr().activate_rows.activate_in_place(out, kind);
                }
            }
        }
    }

    /// x: act `[rows, dim]` · out: act or f32 `[rows, dim]`
    pub fn activate_rows(&self, x: View<'_>, kind: CtrActivation, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => activation::activate_rows(&ops.ctx, x, kind, out),
            Table::Cuda(ops) => ops.ctr().activate_rows.activate_rows(x, kind, out),
        }
    }

    /// x: f32 or act `[_, _]` · out: f32 or act `[_, _]`, the same numbers in the same order
    pub fn arrange(&self, x: View<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => arrange::arrange(&ops.ctx, x, out),
            Table::Cuda(ops) => ops.ctr().arrange.arrange(x, out),
        }
    }

    /// out: act `[rows, dim]`: zeros
    pub fn clear_rows(&self, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => ops.ctx.write_rows::<f32>(out, |_, out| out.fill(0.0)),
            Table::Cuda(ops) => ops.ctr().arrange.clear_rows(out),
        }
    }

    /// out: act `[samples, slots * dim]`
    pub fn pool_rows(&self, args: &PoolRowsArgs<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => pool_rows::pool_rows(&ops.ctx, args, out),
            Table::Cuda(ops) => ops.ctr().pool_rows.pool_rows(args, out),
        }
    }

    /// As [`pool_rows`](Self::pool_rows), straight from a hot cache in host memory; whether all
    /// keys were there. On a CPU alone · out: f32 `[samples, slots * dim]`
    pub fn pool_host_cached(
        &self,
        cache: &HostHotCache,
        args: PoolHostArgs<'_>,
        out: ViewMut<'_>,
    ) -> bool {
        match &self.table {
            Table::Cpu(ops) => pool_cached::cpu::pool_cached(&ops.ctx, cache, args, out),
            Table::Cuda(_) => panic!("a GPU pools from its own hot caches"),
        }
    }

    /// x: act `[samples, dim]` · embeddings: act `[samples, count * dim]` · out: act
    /// `[samples, interaction_width(dim, count)]`
    pub fn interact(&self, x: View<'_>, embeddings: View<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => interact::interact(&ops.ctx, x, embeddings, out),
            Table::Cuda(ops) => ops.ctr().interact.interact(x, embeddings, out),
        }
    }

    /// out: act `[rows, dim]`
    pub fn multi_cross(&self, args: &MultiCrossArgs<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => multi_cross::multi_cross(&ops.ctx, args, out),
            Table::Cuda(ops) => ops.ctr().multi_cross.multi_cross(args, out),
        }
    }

    /// out: act `[rows, dim]`
    pub fn cross_step(&self, args: &CrossStepArgs<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => cross_step::cross_step(&ops.ctx, args, out),
            Table::Cuda(ops) => ops.ctr().cross_step.cross_step(args, out),
        }
    }

    /// x: act `[rows, count]` · weights: f32 `[count * dim]` · out: act `[rows, count * dim]`
    pub fn weight_multiply(&self, x: View<'_>, weights: &Vector, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => weight_multiply::weight_multiply(&ops.ctx, x, weights, out),
            Table::Cuda(ops) => ops.ctr().weight_multiply.weight_multiply(x, weights, out),
        }
    }

    /// x: act `[rows, count * dim]` · out: act `[rows, dim]`
    pub fn fm_order2(&self, x: View<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => fm_order2::fm_order2(&ops.ctx, x, out),
            Table::Cuda(ops) => ops.ctr().fm_order2.fm_order2(x, out),
        }
    }

    /// x: act `[rows, count * dim]` · out: act `[rows, dim]`
    pub fn reduce_rows(&self, x: View<'_>, kind: Reduction, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => reduce_rows::reduce_rows(&ops.ctx, x, kind, out),
            Table::Cuda(ops) => ops.ctr().reduce_rows.reduce_rows(x, kind, out),
        }
    }

    /// out: act or f32 `[rows, dim]`
    pub fn combine(&self, args: &CombineArgs<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => combine::combine(&ops.ctx, args, out),
            Table::Cuda(ops) => ops.ctr().combine.combine(args, out),
        }
    }

    /// x: act `[rows, dim]` · out: act or f32 `[rows, dim]`
    pub fn softmax_rows(&self, x: View<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => softmax_rows::softmax_rows(&ops.ctx, x, out),
            Table::Cuda(ops) => ops.ctr().softmax_rows.softmax_rows(x, out),
        }
    }

    /// x, out: act `[rows, dim]`; all rows are one batch
    pub fn dice(&self, x: View<'_>, rule: DiceRule, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => dice::dice(&ops.ctx, x, rule, out),
            Table::Cuda(ops) => ops.ctr().dice.dice(x, rule, out),
        }
    }

    /// x: act `[rows, dim]` · out: act `[rows, factor * dim]` or `[factor * rows, dim]`
    pub fn repeat(&self, x: View<'_>, what: Repeated, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => repeat::repeat(&ops.ctx, x, what, out),
            Table::Cuda(ops) => ops.ctr().repeat.repeat(x, what, out),
        }
    }

    /// out: act `[rows, dim]`
    pub fn scale_shift(&self, args: &ScaleShiftArgs<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => scale_shift::scale_shift(&ops.ctx, args, out),
            Table::Cuda(ops) => ops.ctr().scale_shift.scale_shift(args, out),
        }
    }

    /// As [`Ops::layer_norm`] of activations · x, out: act `[rows, dim]`
    pub fn norm_rows(&self, x: View<'_>, affine: Affine<'_>, eps: f32, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => {
                layer_norm::layer_norm(&ops.ctx, x, Some(affine.row()), eps, out);
            }
            Table::Cuda(ops) => ops.ctr().norm_rows.norm_rows(x, affine, eps, out),
        }
    }

    /// out: act `[samples, rows * columns]`
    pub fn sequence_mask(&self, args: &SequenceMaskArgs<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => sequence_mask::sequence_mask(&ops.ctx, args, out),
            Table::Cuda(ops) => ops.ctr().sequence_mask.sequence_mask(args, out),
        }
    }

    /// out: act `[samples, rows * heads * dim]`
    pub fn attend_sequences(&self, args: &AttendSequencesArgs<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => attend_sequences::attend_sequences(&ops.ctx, args, out),
            Table::Cuda(ops) => ops.ctr().attend_sequences.attend_sequences(args, out),
        }
    }
}
