//! Launches `gemm.cu`.

use std::sync::Arc;

use terrace_device::DType;
use terrace_device::cuda::CudaDevice;

use super::dense_product::{DenseParams, DenseProduct};
use crate::cuda::{TypedKernel, load};
use crate::error::Error;

/// Products of many tokens with dense f16 or bf16, without a library.
pub(crate) struct GemmKernels {
    wide: TileKernel,
    small: TileKernel,
    activation: DType,
    multiprocessors: usize,
}

/// A kernel whose blocks compute `tokens` x `rows` outputs each.
struct TileKernel {
    kernel: TypedKernel<DenseParams>,
    tokens: usize,
    rows: usize,
    threads: usize,
    shared_bytes: usize,
}

const STAGES: usize = 4;

impl GemmKernels {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let module = load(device, "gemm", activation.name())?;
        // As `COLUMNS` in `gemm.cu`, which is compiled for Hopper and for all GPUs.
        let stage_columns = if device.compute_capability() == (9, 0) { 64 } else { 32 };
        let tile = |name, tokens, rows, threads| {
            let kernel = TypedKernel::find(&module, name)?;
            let shared_bytes = (tokens + rows) * stage_columns * activation.bytes() * STAGES;
            kernel.allow_shared(shared_bytes)?;
            Ok::<_, Error>(TileKernel { kernel, tokens, rows, threads, shared_bytes })
        };
        Ok(GemmKernels {
            wide: tile("gemm_wide", 128, 256, 256)?,
            small: tile("gemm_small", 128, 64, 128)?,
            activation,
            multiprocessors: device.multiprocessors(),
        })
    }

    /// All of the activations' type, or `out` in f32. Columns and the stride of `x` are multiples
    /// of 8.
    pub(crate) fn project(&self, product: &DenseProduct<'_>) {
        product.check_whole_rows();
        assert_eq!(product.x.dtype(), self.activation, "type of x of project");
        let [tokens, rows] = product.out.dims();
        let tile = self.tile_for(tokens, rows);
        let (grid, params) = ([tile.count(tokens, rows), 1, 1], product.params());
        // SAFETY: the product's shapes were checked.
        unsafe { tile.kernel.launch_shared(grid, tile.threads, tile.shared_bytes, &params) };
    }

    /// All multiprocessors do one wide tile each, or two small ones in two thirds of that time
    /// (H200, 4096 columns: 70 and 47 µs). The tile changes no sum.
    fn tile_for(&self, tokens: usize, rows: usize) -> &TileKernel {
        let rounds = |tile: &TileKernel, at_once| {
            tile.count(tokens, rows).div_ceil(self.multiprocessors * at_once)
        };
        if rounds(&self.small, 2) * 2 < rounds(&self.wide, 1) * 3 {
            &self.small
        } else {
            &self.wide
        }
    }
}

impl TileKernel {
    fn count(&self, tokens: usize, rows: usize) -> usize {
        tokens.div_ceil(self.tokens) * rows.div_ceil(self.rows)
    }
}
