//! Launches `fill_random.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, ViewMut};

use crate::cuda::{TypedKernel, kernel_params, load};
use crate::error::Error;

pub(crate) struct FillRandomKernels {
    f32: FillRandomKernel,
    bf16: FillRandomKernel,
    f16: FillRandomKernel,
    bits: FillRandomKernel,
    most_blocks: usize,
}

type FillRandomKernel = TypedKernel<FillRandomParams>;

const THREADS: usize = 256;

kernel_params! {
    /// Twin of `FillRandomParams` in `fill_random.cu`.
    struct FillRandomParams: 32 bytes {
        out: u64,
        seed: u64,
        count: u64,
        factor: f32,
    }
}

impl FillRandomKernels {
    pub(crate) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        let module = load(device, "fill_random", "any")?;
        Ok(FillRandomKernels {
            f32: TypedKernel::find(&module, "fill_f32")?,
            bf16: TypedKernel::find(&module, "fill_bf16")?,
            f16: TypedKernel::find(&module, "fill_f16")?,
            bits: TypedKernel::find(&module, "fill_bits")?,
            most_blocks: 16 * device.multiprocessors(),
        })
    }

    /// Near-normal numbers with standard deviation `factor` · out: f32, f16 or bf16, dense
    pub(crate) fn numbers(&self, out: ViewMut<'_>, seed: u64, factor: f32) {
        let kernel = match out.dtype() {
            DType::F32 => &self.f32,
            DType::Bf16 => &self.bf16,
            DType::F16 => &self.f16,
            other => panic!("random numbers of type {}", other.name()),
        };
        let count = out.as_view().dense_bytes() / out.dtype().bytes();
        self.launch(kernel, &out, count, seed, factor);
    }

    /// Random bits · out: dense, whole words of 4 bytes
    pub(crate) fn bits(&self, out: ViewMut<'_>, seed: u64) {
        let bytes = out.as_view().dense_bytes();
        assert!(bytes.is_multiple_of(4), "{bytes} bytes are not whole words");
        self.launch(&self.bits, &out, bytes / 4, seed, 0.0);
    }

    fn launch(
        &self,
        kernel: &FillRandomKernel,
        out: &ViewMut<'_>,
        count: usize,
        seed: u64,
        factor: f32,
    ) {
        let params =
            FillRandomParams { out: out.device_address(), seed, count: count as u64, factor };
        let blocks = count.div_ceil(THREADS).min(self.most_blocks);
        // SAFETY: the view holds `count` numbers of its type.
        unsafe { kernel.launch([blocks, 1, 1], THREADS, &params) };
    }
}
