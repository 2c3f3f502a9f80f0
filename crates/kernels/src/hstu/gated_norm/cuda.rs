//! Launches `gated_norm.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, ViewMut};

use super::{GatedForm, GatedNormArgs, NormExtent};
use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::error::Error;
use crate::hstu::layer_norm::cuda::threads_of_row;

pub(crate) struct GatedNormKernel {
    gated_norm: TypedKernel<GatedNormParams>,
    /// For rows that a warp keeps in its registers.
    by_warp: TypedKernel<GatedNormParams>,
    activation: DType,
}

kernel_params! {
    /// Twin of `GatedNormParams` in `gated_norm.cu`.
    struct GatedNormParams: 88 bytes {
        attention: u64,
        u: u64,
        weight: u64,
        bias: u64,
        out: u64,
        dim: u32,
        width: u32,
        attention_stride: u32,
        u_stride: u32,
        out_stride: u32,
        activates: u32,
        form: u32,
        by_head: u32,
        eps: f32,
        rows: u32,
        picked: u64,
    }
}

/// Rows of a block of `gated_norm_by_warp`.
const WARPS: usize = 4;

impl GatedNormParams {
    /// Whether `gated_norm_by_warp` takes such rows.
    fn suits_warps(&self) -> bool {
        let addresses = self.attention | self.u | self.out | self.weight | self.bias;
        let strides = self.attention_stride | self.u_stride | self.out_stride;
        self.form == 0
            && self.by_head == 0
            && self.width == self.dim
            && matches!(self.dim, 256 | 512 | 1024)
            && addresses.is_multiple_of(16)
            && strides.is_multiple_of(8)
    }
}

impl GatedNormKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let module = load(device, "gated_norm", activation.name())?;
        Ok(GatedNormKernel {
            gated_norm: TypedKernel::find(&module, "gated_norm")?,
            by_warp: TypedKernel::find(&module, "gated_norm_by_warp")?,
            activation,
        })
    }

    /// out: act `[rows, parts * dim]`; rows of all may be strided.
    pub(crate) fn gated_norm(&self, args: &GatedNormArgs<'_>, out: ViewMut<'_>) {
        args.check(&out);
        let GatedNormArgs { attention, u, rows: picked, activates, affine, eps, .. } = *args;
        let (form, of) = (args.form, args.extent);
        let types = [attention.dtype(), u.dtype(), out.dtype()];
        assert!(types == [self.activation; 3], "types of gated_norm: {types:?}");
        let ([rows, _], [_, dim]) = (out.dims(), attention.dims());
        let (heads, by_head) = match of {
            NormExtent::AllHeads => (1, false),
            NormExtent::EachHead { heads } => (heads, true),
        };
        let width = dim / heads;
        let params = GatedNormParams {
            attention: attention.device_address(),
            u: u.device_address(),
            weight: affine.map_or(0, |affine| affine.weight.view().device_address()),
            bias: affine.map_or(0, |affine| affine.bias.view().device_address()),
            out: out.device_address(),
            dim: extent(dim),
            width: extent(width),
            attention_stride: extent(attention.row_stride()),
            u_stride: extent(u.row_stride()),
            out_stride: extent(out.row_stride()),
            activates: u32::from(activates),
            form: match form {
                GatedForm::Gated => 0,
                GatedForm::WithAttention => 1,
                GatedForm::WithNormed => 2,
            },
            by_head: u32::from(by_head),
            eps,
            rows: extent(rows),
            picked: picked.map_or(0, |rows| rows.device_address()),
        };
        // SAFETY: the shapes were just checked.
        unsafe {
            match params.suits_warps() {
                true => self.by_warp.launch([rows.div_ceil(WARPS), 1, 1], 32 * WARPS, &params),
                false => self.gated_norm.launch([rows, heads, 1], threads_of_row(width), &params),
            }
        }
    }
}
