//! Launches `decode.cu`.

use std::f32::consts::LOG2_E;
use std::ops::Range;
use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, CudaKernel, Launch};

use super::decode_splits::DecodeSplits;
use super::dense_step::DenseStep;
use crate::attention::attend_args::AttendArgs;
use crate::attention::split_kv::{BLOCK, BLOCK_WARPS, TILE, head_blocks};
use crate::cuda::{extent, kernel_params, load};
use crate::error::Error;
use crate::pages::page_layout::PageLayout;
use crate::pages::paged_kv::PagedKv;

pub(super) struct DecodeKernel {
    kernel: CudaKernel,
    shared_bytes: u32,
    /// Blocks that fit on one multiprocessor.
    fit: usize,
}

kernel_params! {
    /// Twin of `DecodeParams` in `decode.cu`.
    struct DecodeParams: 136 bytes {
        step: DenseStep,
        partials: u64,
        arrivals: u64,
        first_row: u32,
        /// 0: as many as the launch has splits for.
        split_keys: u32,
    }
}

/// Fewer keys are not worth a block: each warp has two tiles of 16.
const MIN_SPLIT_KEYS: usize = 128;
/// Keys of a split where results may not depend on the batch.
const FIXED_SPLIT_KEYS: usize = 512;

impl DecodeKernel {
    pub(super) fn load(
        device: &Arc<CudaDevice>,
        variant: &str,
        layout: &PageLayout,
    ) -> Result<Self, Error> {
        let kernel = load(device, "decode", variant)?.kernel("decode_attention")?;
        let shared_bytes = shared_bytes(layout);
        kernel.allow_shared(shared_bytes)?;
        let fit = kernel.blocks_per_multiprocessor(BLOCK, shared_bytes)?.max(1);
        Ok(DecodeKernel { kernel, shared_bytes, fit })
    }

    /// The rows of sequences that have one, in splits that fill the device.
    pub(super) fn singles(&self, args: &AttendArgs<'_>, kv: &PagedKv<'_>, splits: &DecodeSplits) {
        let rows = kv.singles;
        if rows == 0 {
            return;
        }
        let row_blocks = rows * head_blocks(args.heads, kv.layout.kv_heads);
        let wanted = splits.enough_blocks(self.fit) / row_blocks;
        let row_splits = wanted.clamp(1, table_tokens(kv).div_ceil(MIN_SPLIT_KEYS));
        let mut params = params(args, kv, splits);
        params.step = params.step.of_singles();
        self.launch(args, kv, splits, (0..rows, row_splits), &params);
    }

    /// All rows, in splits whose ends depend on nothing but positions.
    pub(super) fn all_rows(&self, args: &AttendArgs<'_>, kv: &PagedKv<'_>, splits: &DecodeSplits) {
        let [tokens] = kv.commit_slots.dims();
        let row_splits = table_tokens(kv).div_ceil(FIXED_SPLIT_KEYS);
        let row_blocks = row_splits * head_blocks(args.heads, kv.layout.kv_heads);
        let room = splits.blocks();
        assert!(row_blocks <= room, "a row in {row_blocks} blocks, room for {room}");
        let launch_rows = room / row_blocks;
        for start in (0..tokens).step_by(launch_rows) {
            let rows = start..tokens.min(start + launch_rows);
            let params = DecodeParams {
                first_row: extent(start),
                split_keys: FIXED_SPLIT_KEYS as u32,
                ..params(args, kv, splits)
            };
            self.launch(args, kv, splits, (rows, row_splits), &params);
        }
    }

    fn launch(
        &self,
        args: &AttendArgs<'_>,
        kv: &PagedKv<'_>,
        splits: &DecodeSplits,
        (rows, row_splits): (Range<usize>, usize),
        params: &DecodeParams,
    ) {
        let [tokens, _] = args.out.dims();
        assert!(rows.end <= tokens, "rows {rows:?} of {tokens}");
        let head_blocks = head_blocks(args.heads, kv.layout.kv_heads);
        let blocks = rows.len() * row_splits * head_blocks;
        assert!(row_splits == 1 || blocks <= splits.blocks(), "{blocks} blocks");
        let launch = Launch {
            grid: [extent(head_blocks), extent(row_splits), extent(rows.len())],
            block: BLOCK,
            shared_bytes: self.shared_bytes,
        };
        // SAFETY: the struct is the kernel's twin; rows and splits were checked, other shapes by
        // the caller and `rope_commit`, and tables and pages are as `PagedKv` promises. Launches
        // follow each other, so all may use the same memory.
        unsafe { self.kernel.launch(launch, params) };
    }
}

fn params(args: &AttendArgs<'_>, kv: &PagedKv<'_>, splits: &DecodeSplits) -> DecodeParams {
    DecodeParams {
        step: DenseStep::new(args, kv, args.scale * LOG2_E),
        partials: splits.memory.partials_address(),
        arrivals: splits.memory.arrivals_address(),
        first_row: 0,
        split_keys: 0,
    }
}

/// Tokens for which a sequence's block table has room.
fn table_tokens(kv: &PagedKv<'_>) -> usize {
    let [_, table_pages] = kv.block_tables.dims();
    (table_pages * kv.layout.page_tokens).max(1)
}

/// Of `decode.cu`: three tiles of keys and values with their scales for each warp.
fn shared_bytes(layout: &PageLayout) -> u32 {
    let row = layout.key_dim * layout.dtype.bytes() + layout.scale_bytes();
    extent(BLOCK_WARPS * 3 * 2 * TILE * row)
}
