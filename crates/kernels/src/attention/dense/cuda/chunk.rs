//! Launches `chunk.cu`, or `chunk_hopper.cu` where it can.

use std::f32::consts::LOG2_E;
use std::sync::Arc;

use terrace_device::DType;
use terrace_device::cuda::{CudaDevice, CudaKernel, Launch};

use super::dense_step::DenseStep;
use crate::attention::attend_args::AttendArgs;
use crate::cuda::{extent, kernel_params, load};
use crate::error::Error;
use crate::pages::page_layout::PageLayout;
use crate::pages::paged_kv::{CHUNK_TILE_TOKENS, PagedKv};

pub(super) struct ChunkKernel {
    kernel: CudaKernel,
    block: u32,
    shared_bytes: u32,
}

kernel_params! {
    /// Twin of `ChunkParams` in `chunk.cuh`.
    struct ChunkParams: 120 bytes {
        step: DenseStep,
        tiles: u64,
    }
}

impl ChunkKernel {
    pub(super) fn load(
        device: &Arc<CudaDevice>,
        variant: &str,
        layout: &PageLayout,
        on_hopper: bool,
    ) -> Result<Self, Error> {
        let (file, block, shared_bytes) = if on_hopper && layout.scale_bytes() == 0 {
            ("chunk_hopper", 3 * 128, hopper_shared_bytes(layout))
        } else {
            ("chunk", 128, shared_bytes(layout))
        };
        let kernel = load(device, file, variant)?.kernel("chunk_attention")?;
        kernel.allow_shared(shared_bytes)?;
        Ok(ChunkKernel { kernel, block, shared_bytes })
    }

    /// The rows of `chunk_tiles`.
    pub(super) fn launch(&self, args: &AttendArgs<'_>, kv: &PagedKv<'_>) {
        let [tiles, _] = kv.chunk_tiles.dims();
        let launch = Launch {
            grid: [extent(args.heads), extent(tiles), 1],
            block: self.block,
            shared_bytes: self.shared_bytes,
        };
        let params = ChunkParams {
            step: DenseStep::new(args, kv, args.scale * LOG2_E),
            tiles: kv.chunk_tiles.device_address(),
        };
        // SAFETY: the struct is the kernel's twin; shapes were checked by the caller and by
        // `rope_commit`, and tables, tiles and pages are as `PagedKv` promises.
        unsafe { self.kernel.launch(launch, &params) };
    }
}

/// Of `chunk.cu`: a tile of queries, two tiles of 64 keys and values as pages hold them, and for
/// fp8 one tile widened to f16.
fn shared_bytes(layout: &PageLayout) -> u32 {
    let (dim, keys) = (layout.key_dim, 64);
    let wide_row = dim * DType::F16.bytes();
    let stage = 2 * keys * (dim * layout.dtype.bytes() + layout.scale_bytes());
    let wide = if layout.scale_bytes() > 0 { 2 * keys * wide_row } else { 0 };
    extent(CHUNK_TILE_TOKENS * wide_row + 2 * stage + wide)
}

/// Of `chunk_hopper.cu`: tiles of 128 rows, one of queries, two of keys and two of values, and nine
/// barriers.
fn hopper_shared_bytes(layout: &PageLayout) -> u32 {
    extent(5 * 128 * layout.key_dim * layout.dtype.bytes() + 9 * 8)
}
