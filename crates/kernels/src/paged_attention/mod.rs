//! Attention of live rows over the past slots of their sequence and over each other.
//!
//! q: f32 `[tokens, heads, key_dim]` · live_k, live_v: page dtype `[tokens, kv_heads, dim]`, fp8
//! rows followed by their scales · out: f32 `[tokens, heads, value_dim]`
//!
//! Query at position `p` sees keys `j <= p`, and with a window only those with `p - j < window`.
//! Head `h` reads kv head `h / (heads / kv_heads)`.
//!
//! A task is a tile of consecutive tokens of one sequence with all query heads of one kv head, so
//! that a key is fetched and widened once for all of them. Keys are taken in blocks that start at
//! fixed positions ([`simd`]), which makes a query's result independent of where pages end, where
//! the live rows begin and what else is in the tile. Queries of prompts go through the matrix units
//! where there are any ([`prompt_tile`]).
//!
//! Roofline: `2 (key_dim + value_dim)` flops per query head and visible key. Decoding reads each
//! key and value once for the group, so it is bound by memory up to groups of about ten heads.

pub(crate) mod cuda;
mod cuts;
mod kv_rows;
#[cfg(target_arch = "x86_64")]
mod prompt_tile;
pub(crate) mod reference;
mod simd;

use std::ops::Range;

use terrace_device::SharedRows;

use crate::attention::{OutRows, QueryRows};
use crate::cpu_ops::{AttentionArgs, CpuOps, SCRATCH_FLOATS};
use crate::lanes::{Kernel, Lanes};
#[cfg(target_arch = "x86_64")]
use crate::lanes::{Simd, TileRow};
use cuts::Cuts;
use kv_rows::KvRows;
#[cfg(target_arch = "x86_64")]
use prompt_tile::PromptTile;

pub(crate) fn paged_attention(ops: &CpuOps, mut args: AttentionArgs<'_>) {
    check(&args);
    let (kv_heads, value_dim) = (args.kv.layout.kv_heads, args.kv.layout.value_dim);
    let cuts = Cuts::new(ops, &args);
    let seqs = args.kv.live_starts.as_slice::<i32>().len() - 1;
    let tiles: usize = (0..seqs).map(|seq| cuts.tiles_of(seq)).sum();
    let out = SharedRows::<f32>::new(&mut args.out);
    ops.run_with_scratch(tiles * kv_heads, &|scratch, task| {
        // Later tiles see more keys and come first, so that no long one is left for the end.
        let task = tiles * kv_heads - 1 - task;
        let (mut tile, kv_head) = (task / kv_heads, task % kv_heads);
        let mut seq = 0;
        while cuts.tiles_of(seq) <= tile {
            tile -= cuts.tiles_of(seq);
            seq += 1;
        }
        let cut = cuts.tile(seq, tile);
        let heads = kv_head * cuts.group..(kv_head + 1) * cuts.group;
        let tile = Tile {
            q: QueryRows::new(args.q, cut.tokens.start, heads.clone()),
            out: OutRows::new(&out, cut.tokens.start, heads, value_dim),
            kv: KvRows::new(args.kv, args.live_k, args.live_v, args.layer, seq, kv_head),
            tokens: cut.tokens,
            group: cuts.group,
            scale: args.scale,
            window: args.window,
            scratch,
        };
        match (ops.simd, cut.of_prompt) {
            #[cfg(target_arch = "x86_64")]
            (Simd::Amx(amx), true) => amx.with_tiles(TileRow::Bytes64, |tiles| {
                ops.simd.run_strips(PromptTile { tile, tiles });
            }),
            _ => ops.simd.run(tile),
        }
    });
}

const _: () = assert!(
    simd::work_floats(CpuOps::MAX_GROUP_HEADS, CpuOps::MAX_HEAD_DIM, CpuOps::MAX_HEAD_DIM)
        <= SCRATCH_FLOATS,
    "the largest tile fits into a worker's scratch"
);

fn check(args: &AttentionArgs<'_>) {
    let layout = args.kv.layout;
    let [tokens, heads, _] = args.q.dims();
    assert!(0 < heads && heads.is_multiple_of(layout.kv_heads), "{heads} query heads");
    assert_eq!(args.q.dims(), [tokens, heads, layout.key_dim], "q of attention");
    let live_dims = |dim| [tokens, layout.kv_heads, layout.live_row(dim)];
    assert_eq!(args.live_k.dims(), live_dims(layout.key_dim), "live keys");
    assert_eq!(args.live_v.dims(), live_dims(layout.value_dim), "live values");
    assert_eq!(args.live_k.dtype(), layout.dtype, "live keys have page dtype");
    assert_eq!(args.live_v.dtype(), layout.dtype, "live values have page dtype");
    assert_eq!(args.out.dims(), [tokens, heads, layout.value_dim], "out of attention");
    assert!(args.window != Some(0), "a window of 0 hides every key");
    let widest = layout.key_dim.max(layout.value_dim);
    assert!(widest <= CpuOps::MAX_HEAD_DIM, "heads of {widest}, at most {}", CpuOps::MAX_HEAD_DIM);
    let group = heads / layout.kv_heads;
    assert!(group <= CpuOps::MAX_GROUP_HEADS, "{group} heads share one kv head");
    args.kv.assert_readable(tokens);
    args.origins.check(tokens);
}

/// Some tokens of one sequence, and the query heads of one kv head.
///
/// Its queries are numbered token by token, head by head.
struct Tile<'a> {
    q: QueryRows<'a>,
    /// Each query's result is this task's alone.
    out: OutRows<'a>,
    kv: KvRows<'a>,
    tokens: Range<usize>,
    /// Query heads of the kv head.
    group: usize,
    scale: f32,
    window: Option<usize>,
    scratch: &'a mut [f32],
}

impl Tile<'_> {
    fn queries(&self) -> usize {
        self.tokens.len() * self.group
    }

    /// Positions of the keys that a query sees.
    fn visible(&self, query: usize) -> Range<usize> {
        let position = self.kv.position_of(self.tokens.start + query / self.group);
        let first = self.window.map_or(0, |window| (position + 1).saturating_sub(window));
        first..position + 1
    }
}

impl Kernel for Tile<'_> {
    fn reference(self) {
        for query in 0..self.queries() {
            // SAFETY: one query at a time.
            let out = unsafe { self.out.get(query) };
            let key = |j, i| self.kv.key_element(j, i);
            let value = |j, i| self.kv.value_element(j, i);
            reference::attend(self.q.get(query), self.scale, self.visible(query), key, value, out);
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        simd::attend(lanes, self);
    }
}
