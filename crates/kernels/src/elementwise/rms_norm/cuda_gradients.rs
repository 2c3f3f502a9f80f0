//! Launches `rms_norm_gradients.cu`.

use std::sync::Arc;

use terrace_device::DType;
use terrace_device::cuda::CudaDevice;

use super::RmsNormGradients;
use super::check::check;
use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::error::Error;

pub(crate) struct RmsNormGradientsKernel {
    heads: TypedKernel<RmsNormGradientsParams>,
    short: TypedKernel<RmsNormGradientsParams>,
    long: TypedKernel<RmsNormGradientsParams>,
    multiprocessors: usize,
}

kernel_params! {
    /// Twin of `RmsNormGradientsParams` in `rms_norm_gradients.cu`.
    struct RmsNormGradientsParams: 72 bytes {
        x: u64,
        weight: u64,
        d_out: u64,
        d_x: u64,
        d_weight: u64,
        rows: u32,
        heads: u32,
        dim: u32,
        x_stride: u32,
        d_out_stride: u32,
        d_x_stride: u32,
        eps: f32,
    }
}

/// Numbers of a row that a warp keeps, in as few registers as heads need and in more.
const HEAD_DIM: usize = 128;
const SHORT_DIM: usize = 512;
/// Warps of a block where each has rows of its own.
const WARPS: usize = 8;
/// Shared memory that every GPU since Ampere lets a block have: it bounds the weight's length.
const SHARED_MOST: usize = 96 << 10;
/// Threads that a multiprocessor runs at once, and most blocks of them.
const RESIDENT_THREADS: usize = 2048;
const RESIDENT_BLOCKS: usize = 8;

impl RmsNormGradientsKernel {
    pub(crate) fn load(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        let module = load(device, "rms_norm_gradients", "f32")?;
        let long: TypedKernel<_> = TypedKernel::find(&module, "rms_norm_gradients_long")?;
        long.allow_shared(SHARED_MOST)?;
        Ok(RmsNormGradientsKernel {
            heads: TypedKernel::find(&module, "rms_norm_gradients_heads")?,
            short: TypedKernel::find(&module, "rms_norm_gradients_short")?,
            long,
            multiprocessors: device.multiprocessors(),
        })
    }

    /// All f32; rows, of `[rows, dim]` or `[rows, heads, dim]`, may be strided.
    pub(crate) fn run(&self, args: RmsNormGradients<'_>) {
        let RmsNormGradients { x, weight, eps, d_out, d_x, d_weight } = args;
        check(x, weight);
        assert_eq!(d_out.shape(), x.shape(), "d_out of rms_norm_gradients");
        assert_eq!(d_x.shape(), x.shape(), "d_x of rms_norm_gradients");
        let [dim] = weight.dims();
        let d_weight = d_weight.as_ref().map(|d_weight| d_weight.as_view());
        assert!(d_weight.is_none_or(|d_weight| d_weight.dims() == [dim]), "shape of d_weight");
        let arrays = [Some(x), Some(weight), Some(d_out), Some(d_x.as_view()), d_weight];
        let are_f32 = arrays.into_iter().flatten().all(|array| array.dtype() == DType::F32);
        assert!(are_f32, "types of rms_norm_gradients");
        let (tokens, count) = (x.shape().dims()[0], x.shape().count());
        if count == 0 {
            return;
        }
        let rows = count / dim;
        let params = RmsNormGradientsParams {
            x: x.device_address(),
            weight: weight.device_address(),
            d_out: d_out.device_address(),
            d_x: d_x.device_address(),
            d_weight: d_weight.map_or(0, |d_weight| d_weight.device_address()),
            rows: extent(rows),
            heads: extent(rows / tokens),
            dim: extent(dim),
            x_stride: extent(x.row_stride()),
            d_out_stride: extent(d_out.row_stride()),
            d_x_stride: extent(d_x.row_stride()),
            eps,
        };
        self.launch(rows, dim, &params);
    }

    fn launch(&self, rows: usize, dim: usize, params: &RmsNormGradientsParams) {
        let (kernel, teams, threads) = if dim <= HEAD_DIM {
            (&self.heads, WARPS, 32 * WARPS)
        } else if dim <= SHORT_DIM {
            (&self.short, WARPS, 32 * WARPS)
        } else {
            (&self.long, 1, long_threads(dim))
        };
        let shared_bytes = teams * dim * size_of::<f32>();
        assert!(shared_bytes <= SHARED_MOST, "a norm's weight of {dim} numbers is too long");
        let resident = self.multiprocessors * (RESIDENT_THREADS / threads).min(RESIDENT_BLOCKS);
        let blocks = rows.div_ceil(teams).min(resident);
        // SAFETY: the caller has checked shapes and types; what is added to is borrowed to be
        // written, and shared memory holds a weight for each team.
        unsafe { kernel.launch_shared([blocks, 1, 1], threads, shared_bytes, params) };
    }
}

/// Two vectors of four numbers for each thread, as far as that goes.
fn long_threads(dim: usize) -> usize {
    dim.div_ceil(8).next_multiple_of(32).clamp(32, 1024)
}
