//! `precision`: in which numbers a model computes and learns.

use clap::ValueEnum;
use terrace_device::DType;
use terrace_kernels::Compute;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Precision {
    /// Everything in 32 bits.
    #[value(name = "32-true")]
    F32,
    /// Products take bfloat16; what is trained, gradients and sums are kept in 32 bits.
    #[value(name = "bf16-mixed")]
    Bf16Mixed,
    /// What is trained is bfloat16 as well: small steps are lost.
    #[value(name = "bf16-true")]
    Bf16True,
}

impl Precision {
    pub fn compute(self) -> Compute {
        match self {
            Precision::F32 => Compute::F32,
            Precision::Bf16Mixed | Precision::Bf16True => Compute::Fast,
        }
    }

    /// Of a GPU's activations.
    pub fn activation(self) -> DType {
        match self {
            Precision::F32 => DType::F32,
            Precision::Bf16Mixed | Precision::Bf16True => DType::Bf16,
        }
    }

    pub fn rounds_weights(self) -> bool {
        self == Precision::Bf16True
    }
}
