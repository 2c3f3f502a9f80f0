//! Launches `hstu_attention_hopper.cu`, and `hstu_add_parts.cu` after it where keys are divided.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, PageBoxes, TensorMap};
use terrace_device::{Buffer, DType, Device, View};

use super::page_side::LayerSides;
use super::row_factors::row_factors;
use crate::cuda::{TypedKernel, extent, kernel_params, load};
use crate::error::Error;
use crate::hstu::attention::attend_args::{AttendedRows, HstuAttendArgs, HstuKv, HstuTileViews};
use crate::hstu::attention::row_tiles::{HSTU_TILE_ROWS, HstuTiling};
use crate::pages::page_layout::PageLayout;

/// For heads of one width.
pub(super) struct HopperKernels {
    device: Arc<CudaDevice>,
    attention: TypedKernel<HstuAttentionParams>,
    add_parts: TypedKernel<HstuAddPartsParams>,
    head_dim: usize,
    shared_bytes: usize,
    /// u32 `[2]`: zero between launches.
    counters: Buffer,
    /// f32 `[PARTS * multiprocessors, HSTU_TILE_ROWS, head_dim]`: sums of parts. None where keys
    /// are never divided.
    partials: Option<Buffer>,
}

/// Pages as a launch reads them.
#[derive(Clone, Copy)]
pub(super) struct HopperPages {
    pub kept: LayerSides,
    pub kept_pages: usize,
    /// i32 `[seqs, table_pages]`
    pub tables: u64,
    pub live: LayerSides,
    pub live_pages: usize,
}

kernel_params! {
    /// Twin of `HstuAttentionParams` in `hstu_attention_hopper.cuh`.
    struct HstuAttentionParams: 768 bytes {
        queries: TensorMap,
        keys: TensorMap,
        values: TensorMap,
        live_keys: TensorMap,
        live_values: TensorMap,
        out: u64,
        partials: u64,
        tiles: u64,
        spans: u64,
        block_tables: u64,
        live_tables: u64,
        row_factors: u64,
        counters: u64,
        tokens: u32,
        heads: u32,
        tile_count: u32,
        unused: u32,
        table_pages: u32,
        live_table_pages: u32,
        page_shift: u32,
        page_heads: u32,
        live_page_heads: u32,
        query_chunk: u32,
        activates: u32,
        alpha: f32,
        factor: f32,
        out_stride: u32,
    }
}

kernel_params! {
    /// Twin of `HstuAddPartsParams` in `hstu_add_parts.cu`.
    struct HstuAddPartsParams: 48 bytes {
        partials: u64,
        out: u64,
        tiles: u64,
        row_factors: u64,
        heads: u32,
        head_dim: u32,
        factor: f32,
        out_stride: u32,
    }
}

const THREADS: usize = 3 * 128;
const ADD_THREADS: usize = 256;
/// Parts of one head that there is room for, for each multiprocessor.
const PARTS: usize = 2;
/// Columns that the copy engine takes at once.
const CHUNK: usize = 64;

impl HopperKernels {
    /// Widths of heads that there are kernels for.
    pub(super) const HEAD_DIMS: [usize; 3] = [64, 128, 256];

    /// Whether the tensor cores take heads and pages of this form.
    pub(super) fn suit(layout: &PageLayout) -> bool {
        let PageLayout { page_tokens, key_dim, value_dim, dtype, .. } = *layout;
        key_dim == value_dim
            && Self::HEAD_DIMS.contains(&key_dim)
            && matches!(page_tokens, 32 | 64 | 128)
            && matches!(dtype, DType::Bf16 | DType::F8E4m3 | DType::F8E5m2 | DType::I8)
    }

    pub(super) fn load(
        device: &Arc<CudaDevice>,
        head_dim: usize,
        deterministic: bool,
    ) -> Result<Self, Error> {
        let module = load(device, "hstu_attention_hopper", &head_dim.to_string())?;
        let attention = TypedKernel::find(&module, "hstu_attention")?;
        let shared_bytes = shared_bytes(head_dim);
        attention.allow_shared(shared_bytes)?;
        let home = Device::Cuda(Arc::clone(device));
        let partial_rows = PARTS * device.multiprocessors() * HSTU_TILE_ROWS;
        let partial_bytes = partial_rows * head_dim * DType::F32.bytes();
        let partials = match deterministic {
            true => None,
            false => Some(home.take(partial_bytes, "sums of attention")?),
        };
        Ok(HopperKernels {
            device: Arc::clone(device),
            attention,
            add_parts: TypedKernel::load(device, "hstu_add_parts", "bf16")?,
            head_dim,
            shared_bytes,
            counters: home.take(2 * size_of::<u32>(), "counters of attention")?,
            partials,
        })
    }

    pub(super) fn launch(
        &self,
        args: &HstuAttendArgs<'_>,
        kv: &HstuKv<'_>,
        pages: &HopperPages,
        boxes: &PageMaps,
    ) {
        let HstuTileViews { items, sums } = match args.rows {
            AttendedRows::All => kv.tiles,
            AttendedRows::Candidates => kv.candidate_tiles,
        };
        let ([tokens, _], [tiles, _]) = (args.q.dims(), items.dims());
        if tiles == 0 {
            return;
        }
        let (heads, [_, table_pages]) = (kv.layout.kv_heads, kv.block_tables.dims());
        let [_, live_table_pages] = kv.live_tables.dims();
        let maps = match self.maps(args, boxes) {
            Ok(maps) => maps,
            Err(error) => return self.device.fail(error),
        };
        let [queries, keys, values, live_keys, live_values] = maps;
        let (row_factors, factor) = row_factors(args.row_scale);
        let partials = self.partials.as_ref().map(|it| it.view(DType::F32, [1]).device_address());
        let params = HstuAttentionParams {
            queries,
            keys,
            values,
            live_keys,
            live_values,
            out: args.out.device_address(),
            partials: partials.unwrap_or(0),
            tiles: items.device_address(),
            spans: kv.spans.device_address(),
            block_tables: pages.tables,
            live_tables: kv.live_tables.device_address(),
            row_factors,
            counters: self.counters.view(DType::I32, [2]).device_address(),
            tokens: extent(tokens),
            heads: extent(heads),
            tile_count: extent(tiles),
            unused: 0,
            table_pages: extent(table_pages),
            live_table_pages: extent(live_table_pages),
            page_shift: kv.layout.page_tokens.trailing_zeros(),
            page_heads: extent(boxes.keys.page_heads),
            live_page_heads: extent(boxes.live_keys.page_heads),
            query_chunk: 0,
            activates: u32::from(args.activates),
            alpha: args.scale,
            factor,
            out_stride: extent(args.out.row_stride()),
        };
        let grid = [(tiles * heads).min(self.device.multiprocessors()), 1, 1];
        // SAFETY: the struct is the kernel's twin; shapes were checked by the caller; tables,
        // tiles, spans and pages are as `HstuKv` promises; sums of parts have room, see `tiling`.
        unsafe { self.attention.launch_shared(grid, THREADS, self.shared_bytes, &params) };
        self.add_parts(&params, sums, heads);
    }

    /// Adds what parts of an attention have left.
    fn add_parts(&self, of: &HstuAttentionParams, sums: View<'_>, heads: usize) {
        let [divided, _] = sums.dims();
        if divided == 0 {
            return;
        }
        assert!(self.partials.is_some(), "keys are divided as `tiling` says");
        let params = HstuAddPartsParams {
            partials: of.partials,
            out: of.out,
            tiles: sums.device_address(),
            row_factors: of.row_factors,
            heads: of.heads,
            head_dim: extent(self.head_dim),
            factor: of.factor,
            out_stride: of.out_stride,
        };
        let grid = [divided, heads, self.head_dim / 8];
        // SAFETY: as of the attention before it.
        unsafe { self.add_parts.launch(grid, ADD_THREADS, &params) };
    }

    /// How steps of so many heads are best divided.
    pub(super) fn tiling(&self, heads: usize) -> HstuTiling {
        let multiprocessors = self.device.multiprocessors();
        HstuTiling {
            workers: (multiprocessors / heads).max(1),
            key_tile: tile_keys(self.head_dim),
            parts: if self.partials.is_some() { PARTS * multiprocessors / heads } else { 0 },
        }
    }

    /// Of the queries, and of keys and values of the history and of candidates.
    fn maps(
        &self,
        args: &HstuAttendArgs<'_>,
        boxes: &PageMaps,
    ) -> Result<[TensorMap; 5], terrace_device::Error> {
        let (rows, chunks) = (extent(HSTU_TILE_ROWS), extent(self.head_dim / CHUNK));
        Ok([
            TensorMap::boxes(args.q.as_view(), rows, chunks)?,
            TensorMap::page_boxes(&boxes.keys)?,
            TensorMap::page_boxes(&boxes.values)?,
            TensorMap::page_boxes(&boxes.live_keys)?,
            TensorMap::page_boxes(&boxes.live_values)?,
        ])
    }
}

/// What the copy engine needs to know of pages.
pub(super) struct PageMaps {
    keys: PageBoxes,
    values: PageBoxes,
    live_keys: PageBoxes,
    live_values: PageBoxes,
}

impl PageMaps {
    /// None where the pages, the queries or the results do not lie as the copy engine wants them.
    pub(super) fn of(
        args: &HstuAttendArgs<'_>,
        layout: &PageLayout,
        pages: &HopperPages,
    ) -> Option<PageMaps> {
        let [q, out] = [args.q.as_view(), args.out.as_view()];
        let are_aligned = [q, out].iter().all(|rows| {
            let stride = (rows.row_stride() * rows.dtype().bytes()) as u64;
            (rows.device_address() | stride).is_multiple_of(16)
        });
        let (heads, tile) = (layout.kv_heads, tile_keys(layout.key_dim));
        let HopperPages { kept, kept_pages, live, live_pages, .. } = *pages;
        let maps = PageMaps {
            keys: kept.keys.boxes(kept_pages, heads, tile)?,
            values: kept.values.boxes(kept_pages, heads, tile)?,
            live_keys: live.keys.boxes(live_pages, heads, tile)?,
            live_values: live.values.boxes(live_pages, heads, tile)?,
        };
        are_aligned.then_some(maps)
    }
}

/// As `KEYS` in `hstu_attention_hopper.cuh`.
fn tile_keys(head_dim: usize) -> usize {
    if head_dim == 256 { 64 } else { 128 }
}

/// As `SHARED_BYTES` there: queries, two tiles of keys and three of values, what rows see, the item
/// and twelve barriers.
fn shared_bytes(head_dim: usize) -> usize {
    let row = head_dim * DType::Bf16.bytes();
    (HSTU_TILE_ROWS + 5 * tile_keys(head_dim)) * row + HSTU_TILE_ROWS * 16 + 64 + 12 * 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_is_what_the_kernel_divides() {
        let bytes = HopperKernels::HEAD_DIMS.map(shared_bytes);
        assert_eq!(bytes, [100_512, 198_816, 231_584]);
    }
}
