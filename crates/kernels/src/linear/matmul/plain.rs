//! Launches `plain_product.cu`.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, CudaKernel, Launch};
use terrace_device::{DType, View, ViewMut};

use crate::cuda::{extent, load};
use crate::error::Error;

pub(crate) struct PlainKernel {
    plain: CudaKernel,
}

const TILE: usize = 64;
const THREADS: u32 = 256;

/// Twin of `PlainParams` in `plain_product.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
struct PlainParams {
    x: u64,
    weight: u64,
    bias: u64,
    out: u64,
    tokens: u32,
    rows: u32,
    columns: u32,
    x_stride: u32,
    out_stride: u32,
}

const _: () = assert!(size_of::<PlainParams>() == 56);

impl PlainKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        Ok(PlainKernel { plain: load(device, "plain_product", "f32")?.kernel("plain_product")? })
    }

    /// x: f32 `[tokens, columns]` · weight: f32 `[rows, columns]`, dense · bias: f32 `[rows]` ·
    /// out: f32 `[tokens, rows]`; rows of `x` and `out` may be strided.
    pub(crate) fn project(
        &self,
        x: View<'_>,
        weight: View<'_>,
        bias: Option<View<'_>>,
        out: &ViewMut<'_>,
    ) {
        let ([tokens, columns], [rows, _]) = (x.dims(), weight.dims());
        assert_eq!(weight.dims(), [rows, columns], "columns of weight");
        assert_eq!(out.dims(), [tokens, rows], "out of project");
        assert!(bias.is_none_or(|bias| bias.dims() == [rows]), "bias of project");
        let types = [x.dtype(), weight.dtype(), out.dtype()];
        assert!(types == [DType::F32; 3], "types of project: {types:?}");
        let params = PlainParams {
            x: x.device_address(),
            weight: weight.device_address(),
            bias: bias.map_or(0, |bias| bias.device_address()),
            out: out.device_address(),
            tokens: extent(tokens),
            rows: extent(rows),
            columns: extent(columns),
            x_stride: extent(x.row_stride()),
            out_stride: extent(out.row_stride()),
        };
        let grid = [extent(rows.div_ceil(TILE)), extent(tokens.div_ceil(TILE)), 1];
        let launch = Launch { grid, block: THREADS, shared_bytes: 0 };
        // SAFETY: the params are the kernel's own, and the shapes were just checked.
        unsafe { self.plain.launch(launch, &params) };
    }
}
