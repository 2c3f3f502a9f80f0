//! Launches `embed.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;
use crate::linear::matmul::device_matrix::DeviceMatrix;
use crate::linear::matmul::matrix_kind::MatrixKind;

pub(crate) struct EmbedKernel {
    embed: TypedKernel<EmbedParams>,
    table: MatrixKind,
}

kernel_params! {
    /// Twin of `EmbedParams` in `embed.cu`.
    struct EmbedParams: 48 bytes {
        ids: u64,
        sampled: u64,
        table: u64,
        out: u64,
        sampled_count: u32,
        rows: u32,
        hidden: u32,
        out_stride: u32,
    }
}

/// Columns that a thread brings.
const RUN: usize = 8;
const THREADS: usize = 128;

impl EmbedKernel {
    /// For tables of one kind: f32, f16, bf16 or packed.
    pub(crate) fn load(device: &Arc<CudaDevice>, table: MatrixKind) -> Result<Self, Error> {
        Ok(EmbedKernel { embed: TypedKernel::load(device, "embed", table.name())?, table })
    }

    /// ids: i32 `[tokens]` · sampled: i32, whose place `-1 - id` a negative id means · table:
    /// `[rows, hidden]` · out: f32 `[tokens, hidden]`, rows may be strided. An id that no row has
    /// gives zeros.
    pub(crate) fn embed(
        &self,
        ids: View<'_>,
        sampled: Option<View<'_>>,
        table: &DeviceMatrix,
        out: &ViewMut<'_>,
    ) {
        let ([tokens], hidden) = (ids.dims(), table.columns());
        assert_eq!(out.dims(), [tokens, hidden], "out of embed");
        let are_i32 = sampled.into_iter().chain([ids]).all(|ids| ids.dtype() == DType::I32);
        assert!(are_i32 && out.dtype() == DType::F32, "types of embed");
        assert_eq!(table.kind(), self.table, "table of embed");
        let params = EmbedParams {
            ids: ids.device_address(),
            sampled: sampled.map_or(0, |sampled| sampled.device_address()),
            table: table.packed().device_address(),
            out: out.device_address(),
            sampled_count: sampled.map_or(0, |sampled| extent(sampled.dims::<1>()[0])),
            rows: extent(table.rows()),
            hidden: extent(hidden),
            out_stride: extent(out.row_stride()),
        };
        let grid = [tokens, hidden.div_ceil(RUN * THREADS), 1];
        // SAFETY: the shapes were just checked, and the kernel checks the ids.
        unsafe { self.embed.launch(grid, THREADS, &params) };
    }
}
