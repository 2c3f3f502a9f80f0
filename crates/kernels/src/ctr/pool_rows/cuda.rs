//! Launches `pool_rows.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, ViewMut};

use super::{Combiner, PoolRowsArgs};
use crate::ctr::ctr_rows::{CtrRows, THREADS, blocks};
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

pub(crate) struct PoolRowsKernel {
    kernel: TypedKernel<PoolRowsParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `PoolRowsParams` in `pool_rows.cu`.
    struct PoolRowsParams: 64 bytes {
        rows: CtrRows,
        out: CtrRows,
        index: u64,
        offsets: u64,
        segments: u32,
        slots: u32,
        dim: u32,
        means: u32,
    }
}

impl PoolRowsKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let kernel = TypedKernel::load(device, "pool_rows", activation.name())?;
        Ok(PoolRowsKernel { kernel, activation })
    }

    /// out: act `[samples, slots * dim]`
    pub(crate) fn pool_rows(&self, args: &PoolRowsArgs<'_>, out: ViewMut<'_>) {
        let ([_, dim], [samples, width]) = (args.rows.dims(), out.dims());
        let [offsets] = args.offsets.dims();
        let segments = offsets.checked_sub(1).expect("offsets begin with 0");
        assert!(width.is_multiple_of(dim), "out of pool_rows");
        assert_eq!(samples * (width / dim), segments, "out of pool_rows");
        let dtypes = [args.rows.dtype(), args.index.dtype(), args.offsets.dtype()];
        assert_eq!(dtypes, [DType::F32, DType::I32, DType::I32], "types of pool_rows");
        let params = PoolRowsParams {
            rows: CtrRows::of(args.rows, self.activation),
            out: CtrRows::of_mut(&out, self.activation),
            index: args.index.device_address(),
            offsets: args.offsets.device_address(),
            segments: extent(segments),
            slots: extent(width / dim),
            dim: extent(dim),
            means: u32::from(args.combiner == Combiner::Mean),
        };
        // SAFETY: the extents are those of the views; that offsets and rows exist is the caller's
        // promise, as it is for every op that picks rows.
        unsafe { self.kernel.launch(blocks(segments * dim), THREADS, &params) };
    }
}
