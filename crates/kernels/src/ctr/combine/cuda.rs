//! Launches `combine.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, ViewMut};

use super::{Combination, CombineArgs};
use crate::ctr::ctr_rows::{ActivationParams, CtrRows, THREADS, blocks};
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

pub(crate) struct CombineKernel {
    kernel: TypedKernel<CombineParams>,
    activation: DType,
}

/// Inputs of one launch; those of more are combined in several.
const MOST: usize = 8;

kernel_params! {
    /// Twin of `CombineParams` in `combine.cu`.
    struct CombineParams: 168 bytes {
        inputs: [CtrRows; MOST],
        out: CtrRows,
        rows: u32,
        dim: u32,
        count: u32,
        kind: u32,
        activation: ActivationParams,
    }
}

impl CombineKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let kernel = TypedKernel::load(device, "combine", activation.name())?;
        Ok(CombineKernel { kernel, activation })
    }

    /// out: act or f32 `[rows, dim]`
    pub(crate) fn combine(&self, args: &CombineArgs<'_>, out: ViewMut<'_>) {
        let [rows, dim] = out.dims();
        let is_like_out = |input: &terrace_device::View<'_>| input.dims() == [rows, dim];
        assert!(args.inputs.iter().all(is_like_out), "inputs of combine");
        let own = CtrRows::of_mut(&out, self.activation);
        let inputs = args.inputs.iter().map(|input| CtrRows::of(*input, self.activation));
        let mut waiting: Vec<CtrRows> = inputs.collect();
        while !waiting.is_empty() {
            let now = waiting.len().min(MOST);
            let is_last = now == waiting.len();
            let mut inputs = [CtrRows::NONE; MOST];
            inputs[..now].copy_from_slice(&waiting[..now]);
            let params = CombineParams {
                inputs,
                out: own,
                rows: extent(rows),
                dim: extent(dim),
                count: extent(now),
                kind: match args.kind {
                    Combination::Add => 0,
                    Combination::Subtract => 1,
                    Combination::Multiply => 2,
                },
                activation: ActivationParams::of(args.activation.filter(|_| is_last)),
            };
            // SAFETY: the extents are those of the views; a number is read where it is written
            // by the same thread alone.
            unsafe { self.kernel.launch(blocks(rows * dim), THREADS, &params) };
            waiting.drain(..now);
            if !waiting.is_empty() {
                waiting.insert(0, own);
            }
        }
    }
}
