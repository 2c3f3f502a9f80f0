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
//! the live rows begin and what else is in the tile. Long sequences are cut further where there are
//! few of them ([`stretches`]). Queries of prompts go through the matrix units where there are any
//! ([`prompt_tile`]).
//!
//! Roofline: `2 (key_dim + value_dim)` flops per query head and visible key. Decoding reads each
//! key and value once for the group, so it is bound by memory up to groups of about ten heads.

mod attend;
mod attention_args;
pub(crate) mod cuda;
mod cuts;
mod kv_rows;
#[cfg(target_arch = "x86_64")]
mod prompt_tile;
pub(crate) mod reference;
mod simd;
mod stretches;

pub(crate) use attend::{attend, live_widths};
pub use attention_args::AttentionArgs;

use std::ops::Range;

use terrace_device::{SharedRows, View};

use crate::attention::blocks::{OutRows, QueryRows};
use crate::cpu::cpu_ctx::{CpuCtx, SCRATCH_FLOATS};
use crate::cpu::lanes::{Kernel, Lanes};
#[cfg(target_arch = "x86_64")]
use crate::cpu::lanes::{Simd, TileRow};
use crate::pages::paged_kv::{PageLayout, PagedKv};
use cuts::{Cut, Cuts};
use kv_rows::KvRows;
#[cfg(target_arch = "x86_64")]
use prompt_tile::PromptTile;
use simd::Sums;
use stretches::StretchCuts;

pub(crate) fn paged_attention(ctx: &CpuCtx, mut args: AttentionArgs<'_>) {
    check(&args);
    let cuts = Cuts::new(ctx, &args);
    let seqs = args.kv.live_starts.as_slice::<i32>().len() - 1;
    let tiles = (0..seqs).map(|seq| cuts.tiles_of(seq)).sum();
    let PageLayout { kv_heads, value_dim, .. } = args.kv.layout;
    let out = SharedRows::new(&mut args.out);
    let AttentionArgs { q, live_k, live_v, kv, layer, scale, window, .. } = args;
    let live = [live_k, live_v];
    let layer = Layer {
        ctx,
        cuts,
        tiles,
        kv_heads,
        value_dim,
        q,
        live,
        kv,
        layer,
        scale,
        window,
        out: &out,
    };
    match StretchCuts::new(&layer) {
        Some(cuts) => cuts.attend(&layer),
        None => ctx.run_with_scratch(layer.tasks(), &|scratch, task| {
            let (tile, of_prompt) = layer.tile(task, scratch);
            layer.attend(tile, of_prompt);
        }),
    }
}

/// All queries of a step in one layer. A task is a tile of them.
struct Layer<'a> {
    ctx: &'a CpuCtx,
    cuts: Cuts<'a>,
    /// For each kv head.
    tiles: usize,
    kv_heads: usize,
    value_dim: usize,
    q: View<'a>,
    /// Keys and values.
    live: [View<'a>; 2],
    kv: &'a PagedKv<'a>,
    layer: usize,
    scale: f32,
    window: Option<usize>,
    out: &'a SharedRows<'a, f32>,
}

impl Layer<'_> {
    fn tasks(&self) -> usize {
        self.tiles * self.kv_heads
    }

    /// A task's tile, and whether it is one of a prompt.
    fn tile<'s>(&'s self, task: usize, scratch: &'s mut [f32]) -> (Tile<'s>, bool) {
        // Later tiles see more keys and come first, so that no long one is left for the end.
        let task = self.tasks() - 1 - task;
        let (mut tile, kv_head) = (task / self.kv_heads, task % self.kv_heads);
        let mut seq = 0;
        while self.cuts.tiles_of(seq) <= tile {
            tile -= self.cuts.tiles_of(seq);
            seq += 1;
        }
        let Cut { tokens, of_prompt } = self.cuts.tile(seq, tile);
        let group = self.cuts.group;
        let heads = kv_head * group..(kv_head + 1) * group;
        let [live_k, live_v] = self.live;
        let tile = Tile {
            q: QueryRows::new(self.q, tokens.start, heads.clone()),
            out: OutRows::new(self.out, tokens.start, heads, self.value_dim),
            kv: KvRows::new(self.kv, live_k, live_v, self.layer, seq, kv_head),
            tokens,
            group,
            scale: self.scale,
            window: self.window,
            stretch: None,
            scratch,
        };
        (tile, of_prompt)
    }

    fn attend(&self, tile: Tile<'_>, of_prompt: bool) {
        match (self.ctx.simd, of_prompt) {
            #[cfg(target_arch = "x86_64")]
            (Simd::Amx(amx), true) => amx.with_tiles(TileRow::Bytes64, |tiles| {
                self.ctx.simd.run_strips(PromptTile { tile, tiles });
            }),
            _ => self.ctx.simd.run(tile),
        }
    }
}

const _: () = assert!(
    simd::work_floats(CpuCtx::MAX_GROUP_HEADS, CpuCtx::MAX_HEAD_DIM, CpuCtx::MAX_HEAD_DIM)
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
    assert!(widest <= CpuCtx::MAX_HEAD_DIM, "heads of {widest}, at most {}", CpuCtx::MAX_HEAD_DIM);
    let group = heads / layout.kv_heads;
    assert!(group <= CpuCtx::MAX_GROUP_HEADS, "{group} heads share one kv head");
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
    /// Keys of one stretch alone, and where their sums go.
    stretch: Option<(Range<usize>, Sums<'a>)>,
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

    /// Positions of the keys that any query sees.
    fn seen(&self) -> Range<usize> {
        self.visible(0).start..self.visible(self.queries() - 1).end
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
