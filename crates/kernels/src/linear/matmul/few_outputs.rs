//! Launches `few_outputs.cu`.

use std::sync::Arc;

use terrace_device::DType;
use terrace_device::cuda::CudaDevice;

use super::dense_product::{DenseParams, DenseProduct};
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

/// Products with very few outputs: other kernels compute whole tiles of them.
pub(crate) struct FewOutputsKernel {
    kernel: TypedKernel<FewOutputsParams>,
}

kernel_params! {
    /// Twin of `FewOutputsParams` in `few_outputs.cu`.
    struct FewOutputsParams: 64 bytes {
        product: DenseParams,
        warp_tokens: u32,
        unused: u32,
    }
}

/// As in `few_outputs.cu`.
pub(crate) const MOST_ROWS: usize = 4;
const THREADS: usize = 128;
const WARPS: usize = THREADS / 32;
/// From so many tokens on a warp has several.
const MANY_TOKENS: usize = 2048;

impl FewOutputsKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        Ok(FewOutputsKernel {
            kernel: TypedKernel::load(device, "few_outputs", activation.name())?,
        })
    }

    /// As [`GemmKernels::project`](super::gemm::GemmKernels::project).
    pub(crate) fn project(&self, product: &DenseProduct<'_>) {
        product.check_whole_rows();
        let [tokens, rows] = product.out.dims();
        assert!(rows <= MOST_ROWS, "{rows} outputs, at most {MOST_ROWS}");
        let warp_tokens = if tokens < MANY_TOKENS { 1 } else { 8 };
        let grid = [tokens.div_ceil(WARPS * warp_tokens), 1, 1];
        let product = product.params();
        let params = FewOutputsParams { product, warp_tokens: extent(warp_tokens), unused: 0 };
        // SAFETY: the product's shapes were checked.
        unsafe { self.kernel.launch(grid, THREADS, &params) };
    }
}
