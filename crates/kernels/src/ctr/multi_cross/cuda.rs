//! Launches `multi_cross.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, ViewMut};

use super::MultiCrossArgs;
use crate::ctr::ctr_rows::{CtrRows, THREADS};
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

pub(crate) struct MultiCrossKernel {
    kernel: TypedKernel<MultiCrossParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `MultiCrossParams` in `multi_cross.cu`.
    struct MultiCrossParams: 56 bytes {
        x: CtrRows,
        out: CtrRows,
        weights: u64,
        biases: u64,
        dim: u32,
        layers: u32,
    }
}

/// Shared memory of a block: a row of this many bytes at most.
const ROW_BYTES_MOST: usize = 96 << 10;

impl MultiCrossKernel {
    /// Widest row.
    pub(crate) const DIM_MOST: usize = ROW_BYTES_MOST / 4;

    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let kernel = TypedKernel::load(device, "multi_cross", activation.name())?;
        kernel.allow_shared(ROW_BYTES_MOST)?;
        Ok(MultiCrossKernel { kernel, activation })
    }

    /// out: act `[rows, dim]`
    pub(crate) fn multi_cross(&self, args: &MultiCrossArgs<'_>, out: ViewMut<'_>) {
        let [rows, dim] = args.x.dims();
        assert_eq!(out.dims(), [rows, dim], "out of multi_cross");
        assert!(dim <= Self::DIM_MOST, "rows of {dim} numbers in multi_cross");
        let [weights, biases] = [args.weights, args.biases].map(|vector| vector.view());
        let layers = weights.shape().count() / dim;
        let counts = [weights, biases].map(|vector| vector.shape().count());
        assert_eq!(counts, [layers * dim; 2], "weights of multi_cross");
        let params = MultiCrossParams {
            x: CtrRows::of(args.x, self.activation),
            out: CtrRows::of_mut(&out, self.activation),
            weights: weights.device_address(),
            biases: biases.device_address(),
            dim: extent(dim),
            layers: extent(layers),
        };
        let shared = dim * size_of::<f32>();
        // SAFETY: the extents are those of the views.
        unsafe { self.kernel.launch_shared([rows, 1, 1], THREADS, shared, &params) };
    }
}
