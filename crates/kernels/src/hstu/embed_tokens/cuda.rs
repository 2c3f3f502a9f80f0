//! Launches `embed_tokens.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, ViewMut};

use super::{AddedRows, EmbedTokensArgs};
use crate::arithmetic_class::activation_number;
use crate::cuda::{TypedKernel, extent, kernel_params};
use crate::error::Error;

pub(crate) struct EmbedTokensKernels {
    of_f32: TypedKernel<EmbedTokensParams>,
    of_bf16: TypedKernel<EmbedTokensParams>,
}

kernel_params! {
    /// Twin of `AddedRows` in `embed_tokens.cu`.
    struct AddedParams: 24 bytes {
        table: u64,
        ids: u64,
        rows: u64,
    }
}

kernel_params! {
    /// Twin of `EmbedTokensParams` in `embed_tokens.cu`.
    struct EmbedTokensParams: 96 bytes {
        rows: u64,
        ids: u64,
        out: u64,
        added: [AddedParams; 2],
        row_count: u32,
        dim: u32,
        row_stride: u32,
        out_stride: u32,
        scale: f32,
        out_type: u32,
    }
}

/// Columns that a thread brings.
const RUN: usize = 8;
const THREADS: usize = 128;

impl EmbedTokensKernels {
    pub(crate) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        Ok(EmbedTokensKernels {
            of_f32: TypedKernel::load(device, "embed_tokens", "f32")?,
            of_bf16: TypedKernel::load(device, "embed_tokens", "bf16")?,
        })
    }

    /// out: f32 or act `[tokens, dim]`. An id that no row has gives zeros.
    pub(crate) fn embed_tokens(&self, args: &EmbedTokensArgs<'_>, out: ViewMut<'_>) {
        let ([row_count, dim], [tokens]) = (args.rows.dims(), args.ids.dims());
        assert_eq!(out.dims(), [tokens, dim], "out of embed_tokens");
        assert_eq!(args.ids.dtype(), DType::I32, "ids of embed_tokens");
        let kernel = match args.rows.dtype() {
            DType::F32 => &self.of_f32,
            DType::Bf16 => &self.of_bf16,
            other => panic!("embedding rows of {}", other.name()),
        };
        let params = EmbedTokensParams {
            rows: args.rows.device_address(),
            ids: args.ids.device_address(),
            out: out.device_address(),
            added: args.added.map(|added| added_params(added, tokens, dim)),
            row_count: extent(row_count),
            dim: extent(dim),
            row_stride: extent(args.rows.row_stride()),
            out_stride: extent(out.row_stride()),
            scale: args.scale,
            out_type: u32::from(activation_number(out.dtype())),
        };
        let grid = [tokens, dim.div_ceil(RUN * THREADS), 1];
        // SAFETY: the shapes were just checked, and the kernel checks the ids.
        unsafe { kernel.launch(grid, THREADS, &params) };
    }
}

fn added_params(added: Option<AddedRows<'_>>, tokens: usize, dim: usize) -> AddedParams {
    let Some(AddedRows { table, ids }) = added else {
        return AddedParams { table: 0, ids: 0, rows: 0 };
    };
    assert_eq!((ids.dims(), ids.dtype()), ([tokens], DType::I32), "rows that are added");
    AddedParams {
        table: table.view().device_address(),
        ids: ids.device_address(),
        rows: (table.view().shape().count() / dim) as u64,
    }
}
