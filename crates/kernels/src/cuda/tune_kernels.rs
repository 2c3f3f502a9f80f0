//! The kernels that models are tuned with, loaded for one GPU and type of activations, and the
//! memory they work in.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, PinnedPool};
use terrace_device::{BufferPool, DType, Device};

use super::tune_row_kernels::TuneRowKernels;
use crate::attention::replay::ReplayKernels;
use crate::elementwise::rms_norm::cuda::RmsNormKernels;
use crate::error::Error;
use crate::linear::matmul::matrix_product::MatrixProductKernel;

/// What models are tuned with besides what they are served with.
pub(crate) struct TuneKernels {
    pub memory: BufferPool,
    pub host_memory: PinnedPool,
    /// To rows of the activations' type, and to f32.
    rms_norm: [RmsNormKernels; 2],
    pub rows: TuneRowKernels,
    pub replay: ReplayKernels,
    pub product: MatrixProductKernel,
}

impl TuneKernels {
    pub fn load(
        device: &Arc<CudaDevice>,
        activation: DType,
        on_hopper: bool,
    ) -> Result<Self, Error> {
        Ok(TuneKernels {
            rms_norm: [
                RmsNormKernels::load(device, activation)?,
                RmsNormKernels::load(device, DType::F32)?,
            ],
            host_memory: PinnedPool::new(Arc::clone(device)),
            memory: BufferPool::new(Device::Cuda(Arc::clone(device))),
            rows: TuneRowKernels::load(device, activation)?,
            replay: ReplayKernels::load(device, activation, on_hopper)?,
            product: MatrixProductKernel::load(device, activation)?,
        })
    }

    pub fn rms_norm(&self, out: DType) -> &RmsNormKernels {
        let [to_act, to_f32] = &self.rms_norm;
        if out == DType::F32 { to_f32 } else { to_act }
    }
}
