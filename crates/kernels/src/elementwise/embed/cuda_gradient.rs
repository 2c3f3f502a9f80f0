//! Launches `embed_gradient.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

pub(crate) struct EmbedGradientKernel {
    kernel: TypedKernel<EmbedGradientParams>,
}

kernel_params! {
    /// Twin of `EmbedGradientParams` in `embed_gradient.cu`.
    struct EmbedGradientParams: 40 bytes {
        ids: u64,
        d_out: u64,
        d_table: u64,
        vocab: u32,
        hidden: u32,
        d_out_stride: u32,
        table_stride: u32,
    }
}

/// Columns of a thread.
const COLUMNS: usize = 4;
const THREADS: usize = 128;

impl EmbedGradientKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        Ok(EmbedGradientKernel { kernel: TypedKernel::load(device, "embed_gradient", "f32")? })
    }

    /// `d_table[id] += d_out` for each token, in any order · ids: i32 `[tokens]` · d_out: f32
    /// `[tokens, hidden]` · d_table: f32 `[vocab, hidden]`; rows may be strided. An id outside the
    /// table is passed over.
    pub(crate) fn run(&self, ids: View<'_>, d_out: View<'_>, d_table: ViewMut<'_>) {
        let ([tokens], [vocab, hidden]) = (ids.dims(), d_table.dims());
        assert_eq!(d_out.dims(), [tokens, hidden], "d_out of embed_gradient");
        let are_f32 = [d_out.dtype(), d_table.dtype()] == [DType::F32; 2];
        assert!(are_f32 && ids.dtype() == DType::I32, "types of embed_gradient");
        let params = EmbedGradientParams {
            ids: ids.device_address(),
            d_out: d_out.device_address(),
            d_table: d_table.device_address(),
            vocab: extent(vocab),
            hidden: extent(hidden),
            d_out_stride: extent(d_out.row_stride()),
            table_stride: extent(d_table.row_stride()),
        };
        let grid = [tokens, hidden.div_ceil(COLUMNS * THREADS), 1];
        // SAFETY: the shapes and types were just checked, and the kernel checks the ids.
        unsafe { self.kernel.launch(grid, THREADS, &params) };
    }
}
