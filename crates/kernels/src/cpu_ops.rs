//! The CPU's ops: what they run on, and those that are worth measuring or checking alone. The
//! others are functions of their folders.

use terrace_device::{BufferPool, Device, View, ViewMut, WorkerPool};

use crate::attention::dense::{self, AttentionArgs};
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::cpu_level::CpuLevel;
use crate::cpu::cpu_options::{Compute, CpuOptions};
use crate::elementwise::gate::Activation;
use crate::elementwise::{gate, rms_norm};
use crate::error::Error;
use crate::linear::matmul::{self, Projection};

pub struct CpuOps {
    pub(crate) ctx: CpuCtx,
    /// For what a model is tuned with.
    pub(crate) memory: BufferPool,
}

impl CpuOps {
    pub fn new(options: CpuOptions) -> Result<CpuOps, Error> {
        Ok(CpuOps { ctx: CpuCtx::new(options)?, memory: BufferPool::new(Device::Cpu) })
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

    /// x, out: f32 `[rows, dim]` (or `[rows, heads, dim]`: each head is a row) ·
    /// weight: f32 `[dim]`
    pub fn rms_norm(&self, x: View<'_>, weight: View<'_>, eps: f32, out: ViewMut<'_>) {
        rms_norm::rms_norm(&self.ctx, x, weight, eps, out);
    }

    /// `out = x * weight^T + bias` for each part · x: f32 `[tokens, columns of weight]`
    pub fn project(&self, x: View<'_>, parts: &mut [Projection<'_>]) {
        matmul::project(&self.ctx, x, parts);
    }

    pub fn paged_attention(&self, args: AttentionArgs<'_>) {
        dense::paged_attention(&self.ctx, args);
    }

    /// `out = activation(gate) * up`, all f32 `[tokens, dim]`; inputs may be strided.
    pub fn gate(&self, gate: View<'_>, up: View<'_>, kind: Activation, out: ViewMut<'_>) {
        gate::gate(&self.ctx, gate, up, kind, out);
    }
}
