//! Launches `sequence_mask.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, ViewMut};

use super::SequenceMaskArgs;
use crate::ctr::ctr_rows::{CtrRows, THREADS, blocks};
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

pub(crate) struct SequenceMaskKernel {
    kernel: TypedKernel<SequenceMaskParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `SequenceMaskParams` in `sequence_mask.cu`.
    struct SequenceMaskParams: 64 bytes {
        from: CtrRows,
        to: CtrRows,
        out: CtrRows,
        samples: u32,
        width: u32,
        columns: u32,
        unused: u32,
    }
}

impl SequenceMaskKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let kernel = TypedKernel::load(device, "sequence_mask", activation.name())?;
        Ok(SequenceMaskKernel { kernel, activation })
    }

    /// out: act `[samples, rows * columns]`
    pub(crate) fn sequence_mask(&self, args: &SequenceMaskArgs<'_>, out: ViewMut<'_>) {
        let [samples, width] = out.dims();
        let lengths = [args.from.dims(), args.to.dims()];
        assert_eq!(lengths, [[samples, 1]; 2], "lengths of sequence_mask");
        assert!(width.is_multiple_of(args.columns), "out of sequence_mask");
        let params = SequenceMaskParams {
            from: CtrRows::of(args.from, self.activation),
            to: CtrRows::of(args.to, self.activation),
            out: CtrRows::of_mut(&out, self.activation),
            samples: extent(samples),
            width: extent(width),
            columns: extent(args.columns),
            unused: 0,
        };
        // SAFETY: the extents are those of the views.
        unsafe { self.kernel.launch(blocks(samples * width), THREADS, &params) };
    }
}
