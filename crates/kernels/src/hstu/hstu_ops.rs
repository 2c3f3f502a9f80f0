//! The ops of HSTU models, as [`Ops`] has them for every device.

use terrace_device::{View, ViewMut};

use super::activate::{self, Pointwise};
use super::attention::{
    self, HstuAttendArgs, HstuKv, HstuStepSize, HstuTiling, PlacedTimeBuckets, TimeBuckets,
};
use super::embed_tokens::{self, EmbedTokensArgs};
use super::gated_norm::{self, GatedNormArgs};
use super::layer_norm::{self, Affine};
use super::step_rows::StepRowsArgs;
use super::top_items::{self, TopItemsArgs};
use super::unit_rows;
use crate::error::Error;
use crate::ops::{Ops, Table};
use crate::pages::page_layout::PageLayout;

impl Ops {
    /// Loads what HSTU models with such heads need: before the first step, where nothing is loaded
    /// or taken any more. An error if the device has no kernels for them.
    pub fn check_hstu(&self, key_dim: usize, value_dim: usize) -> Result<(), Error> {
        match &self.table {
            Table::Cpu(_) => Ok(()),
            Table::Cuda(ops) => ops.load_hstu()?.attention.prepare(key_dim, value_dim),
        }
    }

    /// Buckets of time differences, for [`RelativeBias`](super::attention::RelativeBias).
    pub fn place_time_buckets(&self, buckets: TimeBuckets) -> Result<PlacedTimeBuckets, Error> {
        match &self.table {
            Table::Cpu(_) => Ok(PlacedTimeBuckets::on_cpu(buckets)),
            Table::Cuda(ops) => PlacedTimeBuckets::on_cuda(ops.device(), buckets),
        }
    }

    /// x: f32 `[rows, dim]` · out: act `[rows, dim]`
    pub fn layer_norm(&self, x: View<'_>, affine: Option<Affine<'_>>, eps: f32, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => {
                layer_norm::layer_norm(&ops.ctx, x, affine.map(|it| it.row()), eps, out);
            }
            Table::Cuda(ops) => ops.hstu().layer_norm.layer_norm(x, affine, eps, out),
        }
    }

    /// `sum += delta`, then `out = layer_norm(sum)` · sum: f32 `[rows, dim]` · delta, out: act
    pub fn add_layer_norm(
        &self,
        sum: ViewMut<'_>,
        delta: View<'_>,
        affine: Option<Affine<'_>>,
        eps: f32,
        out: ViewMut<'_>,
    ) {
        match &self.table {
            Table::Cpu(ops) => {
                let affine = affine.map(|it| it.row());
                layer_norm::add_layer_norm(&ops.ctx, sum, delta, affine, eps, out);
            }
            Table::Cuda(ops) => {
                ops.hstu().layer_norm.add_layer_norm(sum, delta, affine, eps, out);
            }
        }
    }

    /// `sum[rows[i]] += delta[i]`, or of all rows where none are named · sum: f32 `[_, dim]` ·
    /// rows: i32, ascending, on a GPU negative ones for none · delta: act `[_, dim]`
    pub fn add_rows(&self, sum: ViewMut<'_>, rows: Option<View<'_>>, delta: View<'_>) {
        match &self.table {
            Table::Cpu(ops) => layer_norm::add_rows(&ops.ctx, sum, rows, delta),
            Table::Cuda(ops) => ops.hstu().layer_norm.add_rows(sum, rows, delta),
        }
    }

    /// x: act `[rows, dim]`, in place
    pub fn activate(&self, x: ViewMut<'_>, kind: Pointwise) {
        match &self.table {
            Table::Cpu(ops) => activate::activate(&ops.ctx, x, kind),
            Table::Cuda(ops) => ops.hstu().activate.activate(x, kind),
        }
    }

    /// out: act `[rows, parts * dim]`
    pub fn gated_norm(&self, args: &GatedNormArgs<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => gated_norm::gated_norm(&ops.ctx, args, out),
            Table::Cuda(ops) => ops.hstu().gated_norm.gated_norm(args, out),
        }
    }

    /// x: f32 `[tokens, dim]` · rows: i32 `[picked]` · out: act or f32 `[picked, dim]`
    pub fn unit_rows(&self, x: View<'_>, rows: View<'_>, least: f32, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => unit_rows::unit_rows(&ops.ctx, x, rows, least, out),
            Table::Cuda(ops) => ops.hstu().unit_rows.unit_rows(x, rows, least, out),
        }
    }

    /// What the rows of a step are, on a GPU; elsewhere the host knows.
    #[track_caller]
    pub fn step_rows(&self, args: &StepRowsArgs<'_>) {
        match &self.table {
            Table::Cpu(_) => panic!("the rows of a step are made on the host"),
            Table::Cuda(ops) => ops.hstu().step_rows.step_rows(args),
        }
    }

    /// The items that queries score highest.
    pub fn top_items(&self, args: TopItemsArgs<'_>) {
        match &self.table {
            Table::Cpu(ops) => top_items::top_items(&ops.ctx, args),
            Table::Cuda(ops) => ops.hstu().top_items.top_items(args),
        }
    }

    /// Bytes that [`Ops::top_items`] works in, where at most `most` are wanted of each query.
    pub fn top_items_scratch_bytes(&self, items: usize, most: usize) -> usize {
        match &self.table {
            Table::Cpu(_) => top_items::scratch_bytes(items),
            Table::Cuda(_) => top_items::cuda::scratch_bytes(items, most),
        }
    }

    /// out: f32 or act `[tokens, dim]`
    pub fn embed_tokens(&self, args: &EmbedTokensArgs<'_>, out: ViewMut<'_>) {
        match &self.table {
            Table::Cpu(ops) => embed_tokens::embed_tokens(&ops.ctx, args, out),
            Table::Cuda(ops) => ops.hstu().embed_tokens.embed_tokens(args, out),
        }
    }

    /// How steps over such pages are best divided.
    pub fn hstu_tiling(&self, layout: &PageLayout) -> HstuTiling {
        match &self.table {
            Table::Cpu(_) => HstuTiling::NONE,
            Table::Cuda(ops) => ops.hstu().attention.tiling(layout),
        }
    }

    /// Bytes that [`Ops::hstu_attend`] works in; a larger step never takes less.
    pub fn hstu_scratch_bytes(&self, layout: &PageLayout, size: HstuStepSize) -> usize {
        match &self.table {
            Table::Cpu(_) => attention::scratch_bytes(layout, size.tokens),
            Table::Cuda(ops) => ops.hstu().attention.scratch_bytes(layout, size),
        }
    }

    pub fn hstu_attend(&self, args: HstuAttendArgs<'_>, kv: &mut HstuKv<'_>) {
        match &self.table {
            Table::Cpu(ops) => attention::attend(&ops.ctx, args, kv),
            Table::Cuda(ops) => ops.hstu().attention.attend(&args, kv),
        }
    }
}
