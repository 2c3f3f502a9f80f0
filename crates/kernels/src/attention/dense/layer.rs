//! The queries of a step in one layer, cut into tiles.

use terrace_device::{SharedRows, View};

use super::cuts::{Cut, Cuts};
#[cfg(target_arch = "x86_64")]
use super::prompt_tile::PromptTile;
use super::tile::Tile;
use crate::attention::blocks::{OutRows, QueryRows};
use crate::attention::kv_rows::{KvRows, SeqRows};
use crate::cpu::cpu_ctx::CpuCtx;
#[cfg(target_arch = "x86_64")]
use crate::cpu::lanes::{Simd, TileRow};
use crate::pages::paged_kv::PagedKv;

/// All queries of a step in one layer. A task is a tile of them.
pub(super) struct Layer<'a> {
    pub(super) ctx: &'a CpuCtx,
    pub(super) cuts: Cuts<'a>,
    /// For each kv head.
    pub(super) tiles: usize,
    pub(super) kv_heads: usize,
    pub(super) value_dim: usize,
    pub(super) q: View<'a>,
    /// Keys and values.
    pub(super) live: [View<'a>; 2],
    pub(super) kv: &'a PagedKv<'a>,
    pub(super) layer: usize,
    pub(super) scale: f32,
    pub(super) window: Option<usize>,
    pub(super) out: &'a SharedRows<'a, f32>,
}

impl Layer<'_> {
    pub(super) fn tasks(&self) -> usize {
        self.tiles * self.kv_heads
    }

    /// A task's tile, and whether it is one of a prompt.
    pub(super) fn tile<'s>(&'s self, task: usize, scratch: &'s mut [f32]) -> (Tile<'s>, bool) {
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
        let source = SeqRows {
            layout: self.kv.layout,
            pages: self.kv.pages.as_view(),
            table: self.kv.block_tables.row(seq),
            past: self.kv.past_tokens.as_slice::<i32>()[seq] as usize,
            live_start: self.kv.live_starts.as_slice::<i32>()[seq] as usize,
        };
        let tile = Tile {
            q: QueryRows::new(self.q, tokens.start, heads.clone()),
            out: OutRows::new(self.out, tokens.start, heads, self.value_dim),
            kv: KvRows::new(source, self.live, self.layer, kv_head),
            tokens,
            group,
            scale: self.scale,
            window: self.window,
            split: None,
            scratch,
        };
        (tile, of_prompt)
    }

    pub(super) fn attend(&self, tile: Tile<'_>, of_prompt: bool) {
        match (self.ctx.simd, of_prompt) {
            #[cfg(target_arch = "x86_64")]
            (Simd::Amx(amx), true) => amx.with_tiles(TileRow::Bytes64, |tiles| {
                self.ctx.simd.run_panels(PromptTile { tile, tiles });
            }),
            _ => self.ctx.simd.run(tile),
        }
    }
}
