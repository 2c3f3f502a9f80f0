//! Launches `round_rows.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use super::Quantiser;
use crate::cuda::{CodeBooks, TypedKernel, extent, format_number, kernel_params};
use crate::error::Error;
use crate::pages::row_format::RowFormat;

pub(crate) struct RoundRowsKernel {
    kernel: TypedKernel<RoundRowsParams>,
    books: CodeBooks,
    activation: DType,
}

kernel_params! {
    /// Twin of `RoundRowsParams` in `round_rows.cu`.
    struct RoundRowsParams: 48 bytes {
        x: u64,
        out: u64,
        books: u64,
        rows: u32,
        blocks: u32,
        dim: u32,
        x_stride: u32,
        out_stride: u32,
        format: u32,
    }
}

/// Warps of a block, each with a block of numbers.
const WARPS: usize = 8;
/// As `HEAD_DIM_MAX` in `heads.cuh`.
const DIM_MOST: usize = 256;

impl RoundRowsKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        Ok(RoundRowsKernel {
            kernel: TypedKernel::load(device, "round_rows", activation.name())?,
            books: CodeBooks::place(device)?,
            activation,
        })
    }

    /// What blocks of `block_dim` numbers read as once they are stored; without a quantiser as
    /// they are · x, out: act `[rows, blocks * block_dim]`; rows may be strided.
    pub(crate) fn round(
        &self,
        x: View<'_>,
        block_dim: usize,
        quantiser: Option<Quantiser>,
        out: ViewMut<'_>,
    ) {
        self.launch(x, block_dim, quantiser, &out);
    }

    fn launch(
        &self,
        x: View<'_>,
        block_dim: usize,
        quantiser: Option<Quantiser>,
        out: &ViewMut<'_>,
    ) {
        let [rows, dim] = x.dims();
        assert_eq!(out.dims(), [rows, dim], "out of round_rows");
        let types = [x.dtype(), out.dtype()];
        assert!(types == [self.activation; 2], "types of round_rows: {types:?}");
        assert!((1..=DIM_MOST).contains(&block_dim), "blocks of {block_dim} numbers");
        assert!(dim.is_multiple_of(block_dim), "{dim} numbers in blocks of {block_dim}");
        let fits = quantiser.is_none_or(|quantiser| quantiser.fits(block_dim));
        assert!(fits, "{quantiser:?} cannot pack {block_dim} numbers");
        let blocks = dim / block_dim;
        let params = RoundRowsParams {
            x: x.device_address(),
            out: out.device_address(),
            books: self.books.address(),
            rows: extent(rows),
            blocks: extent(blocks),
            dim: extent(block_dim),
            x_stride: extent(x.row_stride()),
            out_stride: extent(out.row_stride()),
            format: format_number(quantiser.map_or(RowFormat::F32, RowFormat::Quantised)),
        };
        let grid = [(rows * blocks).div_ceil(WARPS), 1, 1];
        // SAFETY: the shapes and types were just checked. A warp reads all of its block before it
        // writes it, so that both may be the same.
        unsafe { self.kernel.launch(grid, 32 * WARPS, &params) };
    }
}
