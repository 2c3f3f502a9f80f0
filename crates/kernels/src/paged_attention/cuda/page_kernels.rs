//! The kernels for one type of pages and width of heads, and which of them takes which rows.

use std::sync::Arc;

use terrace_device::DType;
use terrace_device::cuda::{CudaDevice, CudaKernel, Launch};

use super::decode::DecodeKernel;
use super::rows::{ChunkParams, PlainParams};
use super::share_memory::ShareMemory;
use crate::attend::AttendArgs;
use crate::cuda::{extent, load, page_variant};
use crate::error::Error;
use crate::paged_kv::{CHUNK_TILE_TOKENS, PageLayout};
use crate::rope_commit::cuda::RopeCommitKernel;

pub(super) struct PageKernels {
    dtype: DType,
    head_dim: usize,
    rope_commit: RopeCommitKernel,
    route: Route,
}

enum Route {
    TensorCores { decode: DecodeKernel, chunk: CudaKernel },
    Plain(CudaKernel),
}

/// Widths of heads that tensor cores take, and up to which the plain kernels do.
const TENSOR_CORE_DIMS: [usize; 2] = [64, 128];
const PLAIN_DIMS: [usize; 3] = [64, 128, 256];
/// Threads of the plain kernels.
const PLAIN_BLOCK: u32 = 256;

impl PageKernels {
    pub(super) fn load(device: &Arc<CudaDevice>, layout: &PageLayout) -> Result<Self, Error> {
        let PageLayout { key_dim, value_dim, dtype, .. } = *layout;
        let plain = PLAIN_DIMS.into_iter().find(|most| key_dim <= *most);
        // Scales behind the numbers of an fp8 page lie at multiples of 4 bytes.
        let is_aligned = layout.scale_bytes() == 0 || key_dim.is_multiple_of(4);
        let (Some(plain), true, true) = (plain, key_dim == value_dim, is_aligned) else {
            return Err(Error::HeadsOnGpu { key_dim, value_dim, dtype });
        };
        let route = if dtype != DType::F32 && TENSOR_CORE_DIMS.contains(&key_dim) {
            let variant = format!("{}_{key_dim}", page_variant(dtype));
            let chunk = load(device, "chunk", &variant)?.kernel("chunk_attention")?;
            chunk.allow_shared(chunk_shared_bytes(layout))?;
            Route::TensorCores { decode: DecodeKernel::load(device, &variant, layout)?, chunk }
        } else {
            let module = load(device, "plain", page_variant(dtype))?;
            Route::Plain(module.kernel(&format!("plain_attention_{plain}"))?)
        };
        let rope_commit = RopeCommitKernel::load(device, dtype)?;
        Ok(PageKernels { dtype, head_dim: key_dim, rope_commit, route })
    }

    pub(super) fn suit(&self, layout: &PageLayout) -> bool {
        let PageLayout { key_dim, value_dim, dtype, .. } = *layout;
        (dtype, key_dim, value_dim) == (self.dtype, self.head_dim, self.head_dim)
    }

    pub(super) fn attend(&self, args: &AttendArgs<'_, '_>, memory: &ShareMemory) {
        self.rope_commit.launch(args);
        let [tokens, _] = args.out.dims();
        let heads = extent(args.heads);
        match &self.route {
            Route::TensorCores { decode, .. } if memory.is_deterministic() => {
                decode.all_rows(args, memory);
            }
            Route::TensorCores { decode, chunk } => {
                decode.singles(args, memory);
                let [tiles, _] = args.kv.chunk_tiles.dims();
                let launch = Launch {
                    grid: [heads, extent(tiles), 1],
                    block: CHUNK_TILE_TOKENS as u32,
                    shared_bytes: chunk_shared_bytes(&args.kv.layout),
                };
                // SAFETY: the struct is the kernel's twin; shapes were checked by the caller and by
                // `rope_commit`, and tables, tiles and pages are as `PagedKv` promises.
                unsafe { chunk.launch(launch, &ChunkParams::new(args)) };
            }
            Route::Plain(plain) => {
                let grid = [heads, extent(tokens), 1];
                let launch = Launch { grid, block: PLAIN_BLOCK, shared_bytes: 0 };
                // SAFETY: as above.
                unsafe { plain.launch(launch, &PlainParams::new(args)) };
            }
        }
    }
}

/// Of `chunk.cu`: a tile of queries, two tiles of 64 keys and values as pages hold them and the
/// places of their rows, and for fp8 one tile widened to f16.
fn chunk_shared_bytes(layout: &PageLayout) -> u32 {
    let (dim, keys) = (layout.key_dim, 64);
    let wide_row = dim * DType::F16.bytes();
    let stage = 2 * keys * (dim * layout.dtype.bytes() + layout.scale_bytes());
    let wide = if layout.scale_bytes() > 0 { 2 * keys * wide_row } else { 0 };
    let places = 2 * keys * 16;
    extent(CHUNK_TILE_TOKENS * wide_row + 2 * stage + wide + places)
}
