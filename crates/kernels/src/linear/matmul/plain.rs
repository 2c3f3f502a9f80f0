//! Launches `plain_product.cu`.

use std::sync::Arc;

use terrace_device::DType;
use terrace_device::cuda::CudaDevice;

use super::dense_product::{DenseParams, DenseProduct};
use crate::cuda::TypedKernel;
use crate::error::Error;

pub(crate) struct PlainKernel {
    plain: TypedKernel<DenseParams>,
}

const TILE: usize = 64;
const THREADS: usize = 256;

impl PlainKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        Ok(PlainKernel { plain: TypedKernel::load(device, "plain_product", "f32")? })
    }

    /// All in f32.
    pub(crate) fn project(&self, product: &DenseProduct<'_>) {
        let types = [product.x.dtype(), product.weight.dtype(), product.out.dtype()];
        assert!(types == [DType::F32; 3], "types of project: {types:?}");
        let [tokens, rows] = product.out.dims();
        let grid = [rows.div_ceil(TILE), tokens.div_ceil(TILE), 1];
        // SAFETY: the product's shapes were checked.
        unsafe { self.plain.launch(grid, THREADS, &product.params()) };
    }
}
