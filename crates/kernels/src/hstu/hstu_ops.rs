//! The ops of HSTU models, as [`Ops`] has them for every device.

use terrace_device::{View, ViewMut};

use super::activate::{self, Pointwise};
use super::attention::{self, HstuAttendArgs, HstuKv};
use super::embed_tokens::{self, EmbedTokensArgs};
use super::gated_norm::{self, GatedNormArgs};
use super::layer_norm::{self, Affine};
use super::unit_rows;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::error::Error;
use crate::ops::{Ops, Table};
use crate::pages::page_layout::PageLayout;

impl Ops {
    /// Whether the device has the ops of HSTU models; an error that says so where it has not.
    pub fn check_hstu(&self) -> Result<(), Error> {
        match &self.table {
            Table::Cpu(_) => Ok(()),
            Table::Cuda(_) => Err(Error::NoHstuOnGpu),
        }
    }

    /// x: f32 `[rows, dim]` · out: act `[rows, dim]`
    pub fn layer_norm(&self, x: View<'_>, affine: Option<Affine<'_>>, eps: f32, out: ViewMut<'_>) {
        layer_norm::layer_norm(self.hstu_ctx(), x, affine.map(|it| it.row()), eps, out);
    }

    /// `sum += delta`, then `out = layer_norm(sum)` · sum, delta: f32 `[rows, dim]` · out: act
    pub fn add_layer_norm(
        &self,
        sum: ViewMut<'_>,
        delta: View<'_>,
        affine: Option<Affine<'_>>,
        eps: f32,
        out: ViewMut<'_>,
    ) {
        let affine = affine.map(|it| it.row());
        layer_norm::add_layer_norm(self.hstu_ctx(), sum, delta, affine, eps, out);
    }

    /// `sum += delta` · f32 `[rows, dim]` both
    pub fn add_rows(&self, sum: ViewMut<'_>, delta: View<'_>) {
        layer_norm::add_rows(self.hstu_ctx(), sum, delta);
    }

    /// x: act `[rows, dim]`, in place
    pub fn activate(&self, x: ViewMut<'_>, kind: Pointwise) {
        activate::activate(self.hstu_ctx(), x, kind);
    }

    /// out: act `[rows, parts * dim]`
    pub fn gated_norm(&self, args: &GatedNormArgs<'_>, out: ViewMut<'_>) {
        gated_norm::gated_norm(self.hstu_ctx(), args, out);
    }

    /// x: f32 `[tokens, dim]` · rows: i32 `[picked]` · out: act `[picked, dim]`
    pub fn unit_rows(&self, x: View<'_>, rows: View<'_>, least: f32, out: ViewMut<'_>) {
        unit_rows::unit_rows(self.hstu_ctx(), x, rows, least, out);
    }

    /// out: f32 `[tokens, dim]`
    pub fn embed_tokens(&self, args: &EmbedTokensArgs<'_>, out: ViewMut<'_>) {
        embed_tokens::embed_tokens(self.hstu_ctx(), args, out);
    }

    /// Bytes that [`Ops::hstu_attend`] works in, of a step of so many tokens and sequences.
    pub fn hstu_scratch_bytes(&self, layout: &PageLayout, tokens: usize, _seqs: usize) -> usize {
        attention::scratch_bytes(layout, tokens)
    }

    pub fn hstu_attend(&self, args: HstuAttendArgs<'_>, kv: &mut HstuKv<'_>) {
        attention::attend(self.hstu_ctx(), args, kv);
    }

    /// What the CPU's ops run on. The entries of tables for GPUs are refused at start.
    fn hstu_ctx(&self) -> &CpuCtx {
        match &self.table {
            Table::Cpu(ops) => &ops.ctx,
            Table::Cuda(_) => panic!("check_hstu refuses models of this kind on a GPU"),
        }
    }
}
