//! The parameters of `chunk.cu` and `plain.cu`, which take a step's rows in one launch.

use std::f32::consts::LOG2_E;

use terrace_device::DType;

use crate::attend::AttendArgs;
use crate::cuda::{LayerPages, extent};

/// Twin of `ChunkParams` in `chunk.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ChunkParams {
    layer: LayerPages,
    q: u64,
    block_tables: u64,
    past_tokens: u64,
    live_starts: u64,
    tiles: u64,
    out: u64,
    table_stride: u32,
    group: u32,
    window: u32,
    out_is_f32: u32,
    scale: f32,
}
const _: () = assert!(size_of::<ChunkParams>() == 112);

/// Twin of `PlainParams` in `plain.cu`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct PlainParams {
    layer: LayerPages,
    q: u64,
    block_tables: u64,
    past_tokens: u64,
    row_seqs: u64,
    live_starts: u64,
    out: u64,
    table_stride: u32,
    group: u32,
    window: u32,
    head_dim: u32,
    out_is_f32: u32,
    scale: f32,
}
const _: () = assert!(size_of::<PlainParams>() == 112);

impl ChunkParams {
    pub(super) fn new(args: &AttendArgs<'_, '_>) -> Self {
        let kv = &*args.kv;
        ChunkParams {
            layer: LayerPages::new(kv, args.layer),
            q: args.scratch.device_address(),
            block_tables: kv.block_tables.device_address(),
            past_tokens: kv.past_tokens.device_address(),
            live_starts: kv.live_starts.device_address(),
            tiles: kv.chunk_tiles.device_address(),
            out: args.out.device_address(),
            table_stride: extent(kv.block_tables.row_stride()),
            group: group(args),
            window: window(args),
            out_is_f32: out_is_f32(args),
            scale: args.scale * LOG2_E,
        }
    }
}

impl PlainParams {
    pub(super) fn new(args: &AttendArgs<'_, '_>) -> Self {
        let kv = &*args.kv;
        PlainParams {
            layer: LayerPages::new(kv, args.layer),
            q: args.scratch.device_address(),
            block_tables: kv.block_tables.device_address(),
            past_tokens: kv.past_tokens.device_address(),
            row_seqs: row_seqs(args),
            live_starts: kv.live_starts.device_address(),
            out: args.out.device_address(),
            table_stride: extent(kv.block_tables.row_stride()),
            group: group(args),
            window: window(args),
            head_dim: extent(kv.layout.key_dim),
            out_is_f32: out_is_f32(args),
            scale: args.scale,
        }
    }
}

/// Query heads of one kv head.
pub(super) fn group(args: &AttendArgs<'_, '_>) -> u32 {
    extent(args.heads / args.kv.layout.kv_heads)
}

/// 0 for none.
pub(super) fn window(args: &AttendArgs<'_, '_>) -> u32 {
    args.window.map_or(0, |window| extent(window.min(i32::MAX as usize)))
}

pub(super) fn out_is_f32(args: &AttendArgs<'_, '_>) -> u32 {
    u32::from(args.out.dtype() == DType::F32)
}

/// The sequence of each row, or 0 where row `i` is sequence `i`'s: then -1 past tokens mean none.
pub(super) fn row_seqs(args: &AttendArgs<'_, '_>) -> u64 {
    let kv = &*args.kv;
    let [tokens] = kv.commit_slots.dims();
    if kv.singles == tokens {
        return 0;
    }
    assert_eq!(kv.row_seqs.dims(), [tokens], "row_seqs");
    kv.row_seqs.device_address()
}
