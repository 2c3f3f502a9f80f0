//! The ops of an NVIDIA GPU: which kernels, loaded how, launched with what.
//!
//! A kernel's text is a `.cu` file beside its launcher in the op's folder; its PTX is in `ptx/`,
//! written by `tools/ptx.py`. Here is what they share.

mod cublas_lt;
mod cuda_linear;
mod cuda_ops;
mod cuda_tune;
mod find_library;
mod layer_pages;
mod layer_slots;
mod library_calls;
mod ptx;
mod rank_sums;
mod tune_kernels;
mod tune_row_kernels;
mod typed_kernel;

pub(crate) use cublas_lt::CublasLt;
pub(crate) use cuda_linear::CudaLinear;
pub(crate) use cuda_ops::CudaOps;
pub use cuda_ops::CudaOptions;
pub(crate) use cuda_tune::CudaTune;
pub(crate) use layer_pages::{LayerPages, page_variant, query_dtype};
pub(crate) use layer_slots::{CodeBooks, LayerSlots, LiveRows, format_number};
pub(crate) use ptx::load;
pub use rank_sums::RankSums;
pub(crate) use typed_kernel::{TypedKernel, kernel_params};

/// An extent or a stride as kernels take it.
#[track_caller]
pub(crate) fn extent(count: usize) -> u32 {
    u32::try_from(count).unwrap_or_else(|_| panic!("{count} is more than a kernel counts to"))
}
