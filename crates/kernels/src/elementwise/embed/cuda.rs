//! Launches `embed.cu`.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, CudaKernel, Launch};
use terrace_device::{DType, View, ViewMut};

use crate::cuda::{extent, load};
use crate::error::Error;
use crate::linear::matmul::matrix_kind::MatrixKind;

pub(crate) struct EmbedKernel {
    embed: CudaKernel,
    table: MatrixKind,
}

/// Columns that a thread brings.
const RUN: usize = 8;
const THREADS: usize = 128;

/// Twin of `EmbedParams` in `embed.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
struct EmbedParams {
    ids: u64,
    sampled: u64,
    table: u64,
    out: u64,
    sampled_count: u32,
    rows: u32,
    hidden: u32,
    out_stride: u32,
}

const _: () = assert!(size_of::<EmbedParams>() == 48);

impl EmbedKernel {
    /// For tables of one kind: f32, bf16 or packed.
    pub(crate) fn load(device: &Arc<CudaDevice>, table: MatrixKind) -> Result<Self, Error> {
        let module = load(device, "embed", table.name())?;
        Ok(EmbedKernel { embed: module.kernel("embed")?, table })
    }

    /// ids: i32 `[tokens]` · sampled: i32, whose place `-1 - id` a negative id means · table: all
    /// bytes of `[rows, hidden]` · out: f32 `[tokens, hidden]`, rows may be strided. An id that no
    /// row has gives zeros.
    pub(crate) fn embed(
        &self,
        ids: View<'_>,
        sampled: Option<View<'_>>,
        table: View<'_>,
        rows: usize,
        out: &ViewMut<'_>,
    ) {
        let ([tokens], [_, hidden]) = (ids.dims(), out.dims());
        assert_eq!(out.dims(), [tokens, hidden], "out of embed");
        let are_i32 = sampled.into_iter().chain([ids]).all(|ids| ids.dtype() == DType::I32);
        assert!(are_i32 && out.dtype() == DType::F32, "types of embed");
        let held = table.dense_bytes();
        let needed = self.table.bytes(rows, hidden);
        assert_eq!(held, needed, "bytes of a table of {rows} rows of {hidden}");
        let params = EmbedParams {
            ids: ids.device_address(),
            sampled: sampled.map_or(0, |sampled| sampled.device_address()),
            table: table.device_address(),
            out: out.device_address(),
            sampled_count: sampled.map_or(0, |sampled| extent(sampled.dims::<1>()[0])),
            rows: extent(rows),
            hidden: extent(hidden),
            out_stride: extent(out.row_stride()),
        };
        let grid = [extent(tokens), extent(hidden.div_ceil(RUN * THREADS)), 1];
        let launch = Launch { grid, block: THREADS as u32, shared_bytes: 0 };
        // SAFETY: the params are the kernel's own; the shapes were just checked, and the kernel
        // checks the ids.
        unsafe { self.embed.launch(launch, &params) };
    }
}
