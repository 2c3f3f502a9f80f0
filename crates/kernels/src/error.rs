//! What can go wrong when the op table is built. Ops themselves do not fail.

use terrace_device::DType;

use crate::cpu::cpu_level::CpuLevel;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Device(#[from] terrace_device::Error),
    #[error(
        "this cpu has no {wanted}; choose {best} or leave the level unset",
        wanted = .wanted.name(), best = .best.name()
    )]
    LevelMissing { wanted: CpuLevel, best: CpuLevel },
    #[error(
        "this model's heads have keys of {key_dim} and values of {value_dim} numbers; a gpu \
         attends over equal ones up to 256, in pages of {dtype} a multiple of 4: use the cpu",
        dtype = .dtype.name()
    )]
    HeadsOnGpu { key_dim: usize, value_dim: usize, dtype: DType },
    #[error(
        "this model's heads have keys of {key_dim} and values of {value_dim} numbers; a gpu's \
         selective or quantised cache takes equal ones up to {most}: use the cpu"
    )]
    SlotHeadsOnGpu { key_dim: usize, value_dim: usize, most: usize },
    #[error(
        "this model multiplies rows of {columns} numbers; in bf16 a gpu takes multiples of 8: use \
         the cpu, or fp32"
    )]
    ColumnsOnGpu { columns: usize },
    #[error(
        "this driver does not start many copies with one call, which came with CUDA 12.8; install \
         driver 570 or newer, or move pages by a kernel"
    )]
    BatchedCopies,
    #[error(
        "this model's heads have keys of {key_dim} and values of {value_dim} numbers; a gpu's hstu \
         attention takes up to {most}: use the cpu"
    )]
    HstuHeadsOnGpu { key_dim: usize, value_dim: usize, most: usize },
    #[error("NCCL failed with status {status} while {what}; NCCL_DEBUG=WARN says why")]
    Nccl { what: &'static str, status: i32 },
    #[error("this model has {vocab} tokens; a gpu samples from at most {most}: use the cpu")]
    VocabOnGpu { vocab: usize, most: usize },
}
