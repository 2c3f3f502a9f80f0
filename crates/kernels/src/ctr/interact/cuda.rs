//! Launches `interact.cu`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};

use super::interaction_width;
use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::error::Error;

pub(crate) struct InteractKernels {
    plain: TypedKernel<InteractParams>,
    /// For up to 16, 32 and 48 vectors of half width.
    tiles: Vec<TypedKernel<InteractParams>>,
    activation: DType,
}

kernel_params! {
    /// Twin of `InteractParams` in `interact.cu`.
    struct InteractParams: 56 bytes {
        bottom: u64,
        embedded: u64,
        out: u64,
        samples: u32,
        vectors: u32,
        dim: u32,
        width: u32,
        bottom_stride: u32,
        embedded_stride: u32,
        out_stride: u32,
        unused: u32,
    }
}

/// A warp has a sample.
const WARPS: usize = 4;
const THREADS: usize = 32 * WARPS;
const SHARED_BYTES_MOST: usize = 200 << 10;

impl InteractKernels {
    pub(crate) fn load(device: &Arc<CudaDevice>, activation: DType) -> Result<Self, Error> {
        let module = load(device, "interact", activation.name())?;
        let names: &[&str] = match activation {
            DType::F32 => &[],
            _ => &["interact_16", "interact_32", "interact_48"],
        };
        let tile = |name: &&str| {
            let kernel = TypedKernel::find(&module, name)?;
            kernel.allow_shared(SHARED_BYTES_MOST)?;
            Ok::<_, Error>(kernel)
        };
        let tiles = names.iter().map(tile).collect::<Result<_, _>>()?;
        let plain = TypedKernel::find(&module, "interact_plain")?;
        Ok(InteractKernels { plain, tiles, activation })
    }

    /// x: act `[samples, dim]` · embeddings: act `[samples, count * dim]` · out: act
    pub(crate) fn interact(&self, x: View<'_>, embeddings: View<'_>, out: ViewMut<'_>) {
        let ([samples, dim], [found, embedded]) = (x.dims(), embeddings.dims());
        assert!(found == samples && embedded.is_multiple_of(dim), "embeddings of interact");
        let width = interaction_width(dim, embedded / dim);
        assert_eq!(out.dims(), [samples, width], "out of interact");
        let dtypes = [x.dtype(), embeddings.dtype(), out.dtype()];
        assert_eq!(dtypes, [self.activation; 3], "types of interact");
        let vectors = embedded / dim + 1;
        let params = InteractParams {
            bottom: x.device_address(),
            embedded: embeddings.device_address(),
            out: out.device_address(),
            samples: extent(samples),
            vectors: extent(vectors),
            dim: extent(dim),
            width: extent(width),
            bottom_stride: extent(x.row_stride()),
            embedded_stride: extent(embeddings.row_stride()),
            out_stride: extent(out.row_stride()),
            unused: 0,
        };
        let addresses = params.bottom | params.embedded | params.out;
        let strides = [x.row_stride(), embeddings.row_stride(), out.row_stride()];
        let are_whole = addresses.is_multiple_of(16) && strides.iter().all(|n| n.is_multiple_of(8));
        let row_tiles = vectors.div_ceil(16);
        let shared = WARPS * row_tiles * 16 * (dim + 8) * 2;
        match self.tiles.get(row_tiles - 1) {
            Some(kernel) if are_whole && dim.is_multiple_of(16) && shared <= SHARED_BYTES_MOST => {
                let grid = [samples.div_ceil(WARPS), 1, 1];
                // SAFETY: the extents are those of the views, whose rows are whole vectors.
                unsafe { kernel.launch_shared(grid, THREADS, shared, &params) };
            }
            _ => {
                // SAFETY: the extents are those of the views.
                unsafe { self.plain.launch([samples, 1, 1], THREADS, &params) };
            }
        }
    }
}
