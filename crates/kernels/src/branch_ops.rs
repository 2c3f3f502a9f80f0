//! The ops for branches of low rank that are served beside their products.
//!
//! Having a [`BranchOps`] is the proof that the device has them all. Branches are f32; the
//! activations they meet are of the ops' type.

use terrace_device::{View, ViewMut};

use crate::cpu_ops::CpuOps;
use crate::cuda::CudaOps;
use crate::elementwise::gate::{self, Activation};
use crate::error::Error;
use crate::linear::biased_weight::BiasedWeight;
use crate::linear::linear::Linear;
use crate::linear::lora::{self, BranchArgs, BranchKernels};
use crate::linear::matrix::Matrix;
use crate::ops::{Ops, Table};

#[derive(Clone, Copy)]
pub struct BranchOps<'a> {
    table: BranchTable<'a>,
}

#[derive(Clone, Copy)]
enum BranchTable<'a> {
    Cpu(&'a CpuOps),
    Cuda(&'a CudaOps, &'a BranchKernels),
}

use BranchTable::{Cpu, Cuda};

impl Ops {
    /// What branches are computed with. On a GPU their kernels are loaded with the first call.
    pub fn branches(&self) -> Result<BranchOps<'_>, Error> {
        let table = match &self.table {
            Table::Cpu(cpu) => Cpu(cpu),
            Table::Cuda(cuda) => Cuda(cuda, cuda.load_branches()?),
        };
        Ok(BranchOps { table })
    }
}

impl BranchOps<'_> {
    /// Brings a branch's matrix, which is of f32, to the device.
    pub fn place(&self, weight: Matrix) -> Result<Linear, Error> {
        match self.table {
            Cpu(_) => Ok(Linear::of_weights(vec![BiasedWeight { weight, bias: None }])),
            Cuda(cuda, _) => cuda.place_branch(&weight),
        }
    }

    /// Changes a product's output by its branch. x: act · out: act or f32
    pub fn apply(&self, args: BranchArgs<'_>) {
        match self.table {
            Cpu(cpu) => lora::apply_branch(&cpu.ctx, args),
            Cuda(_, kernels) => kernels.apply(args),
        }
    }

    /// `out = activation(gate) * up`, all act `[tokens, dim]`; inputs may be strided. For gated
    /// units whose products have branches.
    pub fn gate(&self, gate: View<'_>, up: View<'_>, kind: Activation, out: ViewMut<'_>) {
        match self.table {
            Cpu(cpu) => gate::gate(&cpu.ctx, gate, up, kind, out),
            Cuda(cuda, _) => cuda.gate.gate(gate, up, kind, out),
        }
    }
}
