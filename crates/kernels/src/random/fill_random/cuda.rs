//! Launches `fill_random.cu`.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, CudaKernel, Launch};
use terrace_device::{DType, ViewMut};

use crate::cuda::{extent, load};
use crate::error::Error;

pub(crate) struct FillRandomKernels {
    f32: CudaKernel,
    bf16: CudaKernel,
    f16: CudaKernel,
    bits: CudaKernel,
    most_blocks: usize,
}

const THREADS: usize = 256;

/// Twin of `FillRandomParams` in `fill_random.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
struct FillRandomParams {
    out: u64,
    seed: u64,
    count: u64,
    factor: f32,
}

const _: () = assert!(size_of::<FillRandomParams>() == 32);

impl FillRandomKernels {
    pub(crate) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        let module = load(device, "fill_random", "any")?;
        Ok(FillRandomKernels {
            f32: module.kernel("fill_f32")?,
            bf16: module.kernel("fill_bf16")?,
            f16: module.kernel("fill_f16")?,
            bits: module.kernel("fill_bits")?,
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

    fn launch(&self, kernel: &CudaKernel, out: &ViewMut<'_>, count: usize, seed: u64, factor: f32) {
        let params =
            FillRandomParams { out: out.device_address(), seed, count: count as u64, factor };
        let blocks = extent(count.div_ceil(THREADS).min(self.most_blocks));
        let launch = Launch { grid: [blocks, 1, 1], block: THREADS as u32, shared_bytes: 0 };
        // SAFETY: the params are the kernel's own; the view holds `count` numbers of its type.
        unsafe { kernel.launch(launch, &params) };
    }
}
