//! Launches `row_norms.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

pub(crate) struct RowNormsKernel {
    kernel: TypedKernel<RowNormsParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `RowNormsParams` in `row_norms.cu`.
    struct RowNormsParams: 64 bytes {
        weight: u64,
        a: u64,
        b: u64,
        norms: u64,
        rows: u32,
        columns: u32,
        rank: u32,
        weight_stride: u32,
        a_stride: u32,
        b_stride: u32,
        scale: f32,
    }
}

/// Rows of a block.
const ROWS: usize = 8;
const THREADS: usize = 256;
/// Shared memory that a block has without asking for more, less what the kernel itself takes.
const SHARED_MOST: usize = 47 << 10;

impl RowNormsKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let kernel = TypedKernel::load(device, "row_norms", activation.name())?;
        Ok(RowNormsKernel { kernel, activation })
    }

    /// The norm of each row of `weight + scale * b * a` · weight: act `[rows, columns]` · a: f32
    /// `[rank, columns]` · b: f32 `[rows, rank]` · norms: f32 `[rows]`; rows may be strided.
    pub(crate) fn row_norms(
        &self,
        weight: View<'_>,
        a: View<'_>,
        b: View<'_>,
        scale: f32,
        norms: ViewMut<'_>,
    ) {
        let ([rows, columns], [rank, _]) = (weight.dims(), a.dims());
        assert_eq!([a.dims(), b.dims()], [[rank, columns], [rows, rank]], "extents of a branch");
        assert_eq!(norms.dims(), [rows], "norms of row_norms");
        let are_f32 = [a.dtype(), b.dtype(), norms.dtype()] == [DType::F32; 3];
        assert!(are_f32 && weight.dtype() == self.activation, "types of row_norms");
        let shared_bytes = rank * ROWS * size_of::<f32>();
        assert!(shared_bytes <= SHARED_MOST, "a branch of rank {rank}");
        let params = RowNormsParams {
            weight: weight.device_address(),
            a: a.device_address(),
            b: b.device_address(),
            norms: norms.device_address(),
            rows: extent(rows),
            columns: extent(columns),
            rank: extent(rank),
            weight_stride: extent(weight.row_stride()),
            a_stride: extent(a.row_stride()),
            b_stride: extent(b.row_stride()),
            scale,
        };
        let grid = [rows.div_ceil(ROWS), 1, 1];
        // SAFETY: the shapes and types were just checked; shared memory holds the rows of b.
        unsafe { self.kernel.launch_shared(grid, THREADS, shared_bytes, &params) };
    }
}
