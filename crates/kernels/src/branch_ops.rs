//! The ops for branches of low rank that are served beside their products.
//!
//! Having a [`BranchOps`] is the proof that the device has them all. Branches are f32, as are the
//! activations they meet.

use terrace_device::{View, ViewMut};

use crate::cpu_ops::CpuOps;
use crate::elementwise::gate::{self, Activation};
use crate::error::Error;
use crate::linear::biased_weight::BiasedWeight;
use crate::linear::linear::Linear;
use crate::linear::lora::{self, BranchArgs, LoraBranch};
use crate::linear::matrix::Matrix;
use crate::ops::{Ops, Table};

#[derive(Clone, Copy)]
pub struct BranchOps<'a> {
    pub(crate) cpu: &'a CpuOps,
}

impl Ops {
    /// What branches are computed with; an error if the device has no kernels for it.
    pub fn branches(&self) -> Result<BranchOps<'_>, Error> {
        match &self.table {
            Table::Cpu(cpu) => Ok(BranchOps { cpu }),
            Table::Cuda(_) => Err(Error::BranchesOnGpu),
        }
    }
}

impl BranchOps<'_> {
    /// Brings a branch's matrix, which is of f32, to the device.
    pub fn place(&self, weight: Matrix) -> Linear {
        Linear::of_weights(vec![BiasedWeight { weight, bias: None }])
    }

    /// norms: f32 `[rows]`, of the rows of `weight + scale * b * a`
    pub fn row_norms(&self, weight: &Matrix, branch: LoraBranch<'_>, norms: ViewMut<'_>) {
        lora::branch_row_norms(&self.cpu.ctx, weight, branch, norms);
    }

    /// Changes a product's output by its branch.
    pub fn apply(&self, args: BranchArgs<'_>) {
        lora::apply_branch(&self.cpu.ctx, args);
    }

    /// `out = activation(gate) * up`, all f32 `[tokens, dim]`; inputs may be strided. For gated
    /// units whose products have branches.
    pub fn gate(&self, gate: View<'_>, up: View<'_>, kind: Activation, out: ViewMut<'_>) {
        gate::gate(&self.cpu.ctx, gate, up, kind, out);
    }
}
