//! The table of the CPU's ops.

use terrace_device::{View, ViewMut, WorkerPool};

use crate::attention::dense::{self, AttentionArgs};
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::cpu_level::CpuLevel;
use crate::cpu::cpu_options::{Compute, CpuOptions};
use crate::elementwise::gate::Activation;
use crate::elementwise::rope::{RopeAngles, RopeStyle};
use crate::elementwise::rope_angles::RopeFrequencies;
use crate::elementwise::{cast, embed, gate, gather_rows, rms_norm, rope, rope_angles};
use crate::error::Error;
use crate::linear::matmul::{self, Projection};
use crate::linear::matrix::Matrix;
use crate::pages::paged_kv::PagedKv;
use crate::pages::{commit, copy_pages};

pub struct CpuOps {
    pub(crate) ctx: CpuCtx,
}

impl CpuOps {
    pub fn new(options: CpuOptions) -> Result<CpuOps, Error> {
        Ok(CpuOps { ctx: CpuCtx::new(options)? })
    }

    pub fn compute(&self) -> Compute {
        self.ctx.compute()
    }

    pub fn level(&self) -> CpuLevel {
        self.ctx.level()
    }

    pub fn threads(&self) -> usize {
        self.ctx.threads()
    }

    /// The threads the ops run on, for work of the caller's between ops.
    pub fn workers(&self) -> &WorkerPool {
        self.ctx.workers()
    }

    /// ids: i32 `[tokens]` · table: `[vocab, hidden]` · out: f32 `[tokens, hidden]`
    pub fn embed(&self, ids: View<'_>, table: &Matrix, out: ViewMut<'_>) {
        embed::embed(&self.ctx, ids, table, out);
    }

    /// x, out: f32 `[rows, dim]` (or `[rows, heads, dim]`: each head is a row) ·
    /// weight: f32 `[dim]`
    pub fn rms_norm(&self, x: View<'_>, weight: View<'_>, eps: f32, out: ViewMut<'_>) {
        rms_norm::rms_norm(&self.ctx, x, weight, eps, out);
    }

    /// As `rms_norm` in place over heads: x: f32 `[tokens, heads, dim]`, rows may be strided.
    pub fn rms_norm_heads(&self, x: ViewMut<'_>, weight: View<'_>, eps: f32) {
        rms_norm::rms_norm_heads(&self.ctx, x, weight, eps);
    }

    /// `sum += delta`, then `out = rms_norm(sum)`; all f32 `[rows, dim]`.
    pub fn add_rms_norm(
        &self,
        sum: ViewMut<'_>,
        delta: View<'_>,
        weight: View<'_>,
        eps: f32,
        out: ViewMut<'_>,
    ) {
        rms_norm::add_rms_norm(&self.ctx, sum, delta, weight, eps, out);
    }

    /// `out = x * weight^T + bias` for each part · x: f32 `[tokens, columns of weight]`
    pub fn project(&self, x: View<'_>, parts: &mut [Projection<'_>]) {
        matmul::project(&self.ctx, x, parts);
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
        rope_angles::rope_angles(&self.ctx, positions, frequencies, scale, cos, sin);
    }

    /// Rotates in place the first `rotary_dim` elements of each head ·
    /// x: f32 `[tokens, heads, dim]`
    pub fn rope(&self, x: ViewMut<'_>, angles: RopeAngles<'_>, style: RopeStyle) {
        rope::rope(&self.ctx, x, angles, style);
    }

    /// f32 to f32, f16 (saturating) or bf16, same shape, or heads to fp8 rows with their scales;
    /// rows of `x` may be strided.
    pub fn cast(&self, x: View<'_>, out: ViewMut<'_>) {
        cast::cast(&self.ctx, x, out);
    }

    pub fn paged_attention(&self, args: AttentionArgs<'_>) {
        dense::paged_attention(&self.ctx, args);
    }

    /// Writes the live rows, as `paged_attention` takes them, into their slots.
    pub fn commit(&self, live_k: View<'_>, live_v: View<'_>, kv: &mut PagedKv<'_>, layer: usize) {
        commit::commit(live_k, live_v, kv, layer);
    }

    /// `out = activation(gate) * up`, all f32 `[tokens, dim]`; inputs may be strided.
    pub fn gate(&self, gate: View<'_>, up: View<'_>, kind: Activation, out: ViewMut<'_>) {
        gate::gate(&self.ctx, gate, up, kind, out);
    }

    /// x: f32 `[tokens, dim]` · rows: i32 `[picked]` · out: f32 `[picked, dim]`
    pub fn gather_rows(&self, x: View<'_>, rows: View<'_>, out: ViewMut<'_>) {
        gather_rows::gather_rows(x, rows, out);
    }

    /// Copies whole pages · pages: u8 `[pages, page_bytes]` · pairs: i32 `[copies, 2]` (from, to)
    pub fn copy_pages(&self, pages: ViewMut<'_>, pairs: View<'_>) {
        copy_pages::copy_pages(pages, pairs);
    }
}
