//! The worker's memory, divided up, and the weights that are kept in it.
//!
//! What a query weighs in a block is relative to its largest score so far. Where weights are wanted
//! they are kept, with that score, until the last block, and only then brought to the same scale,
//! divided by their sum and added up. So each is computed once. The weight of a slot is one chain
//! of fused multiplications over the queries in order, however many are taken at a time.

use std::ops::Range;

use crate::attention::blocks::{BLOCK_KEYS, NOTHING_SEEN};
use crate::cpu::cpu_ctx::SCRATCH_FLOATS;
use crate::cpu::lanes::Lanes;
use crate::pages::slot_pages::{Side, SlotPages};

/// Queries of a tile: enough that fetching a block of keys is a few percent of the work, and few
/// enough that the kept weights of some thousand slots stay in the second-level cache.
pub(super) const TILE_QUERIES: usize = 64;

pub(super) struct WorkSizes {
    key_dim: usize,
    value_dim: usize,
    blocks: usize,
    keeps: bool,
}

pub(super) struct Work<'a> {
    /// `[BLOCK_KEYS, dim]`: for rows that are widened, and their scales.
    pub(super) keys: &'a mut [f32],
    pub(super) key_scales: &'a mut [f32],
    pub(super) values: &'a mut [f32],
    pub(super) value_scales: &'a mut [f32],
    /// `[queries, stride]`: scores, then weights; of the latest block, or of all.
    pub(super) scores: &'a mut [f32],
    pub(super) stride: usize,
    /// `[queries, BLOCK_KEYS]`: weights times the scales of values.
    pub(super) scaled: &'a mut [f32],
    /// `[queries]`: largest score so far, sum of weights, and what the latest block scales the
    /// earlier ones by.
    pub(super) largest: &'a mut [f32],
    pub(super) total: &'a mut [f32],
    pub(super) shrink: &'a mut [f32],
    /// `[queries, blocks]`: what a block's weights are relative to, if they are kept.
    pub(super) block_largest: &'a mut [f32],
    pub(super) blocks: usize,
    /// Whether all weights are kept.
    pub(super) keeps: bool,
}

impl WorkSizes {
    pub(super) fn new(pages: &SlotPages<'_>, filled: usize, keeps: bool) -> Self {
        let [key_dim, value_dim] = [Side::Keys, Side::Values].map(|side| pages.dim(side));
        WorkSizes { key_dim, value_dim, blocks: filled.div_ceil(BLOCK_KEYS), keeps }
    }

    /// Queries that may be taken at a time.
    pub(super) fn queries_in(&self, memory: usize) -> usize {
        let blocks = BLOCK_KEYS * (self.key_dim + self.value_dim + 2);
        let queries = memory.saturating_sub(blocks) / self.query_floats();
        let slots = self.blocks * BLOCK_KEYS;
        assert!(0 < queries, "{slots} slots in a memory of {SCRATCH_FLOATS} numbers");
        queries.min(TILE_QUERIES)
    }

    fn query_floats(&self) -> usize {
        self.stride() + BLOCK_KEYS + 3 + self.kept_blocks()
    }

    fn stride(&self) -> usize {
        BLOCK_KEYS * self.kept_blocks().max(1)
    }

    fn kept_blocks(&self) -> usize {
        if self.keeps { self.blocks } else { 0 }
    }
}

impl<'a> Work<'a> {
    pub(super) fn divide(memory: &'a mut [f32], sizes: &WorkSizes, queries: usize) -> Self {
        let (keys, memory) = memory.split_at_mut(BLOCK_KEYS * sizes.key_dim);
        let (values, memory) = memory.split_at_mut(BLOCK_KEYS * sizes.value_dim);
        let (key_scales, memory) = memory.split_at_mut(BLOCK_KEYS);
        let (value_scales, memory) = memory.split_at_mut(BLOCK_KEYS);
        let (scores, memory) = memory.split_at_mut(queries * sizes.stride());
        let (scaled, memory) = memory.split_at_mut(queries * BLOCK_KEYS);
        let (largest, memory) = memory.split_at_mut(queries);
        let (total, memory) = memory.split_at_mut(queries);
        let (shrink, memory) = memory.split_at_mut(queries);
        Work {
            keys,
            key_scales,
            values,
            value_scales,
            scores,
            stride: sizes.stride(),
            scaled,
            largest,
            total,
            shrink,
            block_largest: &mut memory[..queries * sizes.kept_blocks()],
            blocks: sizes.blocks,
            keeps: sizes.keeps,
        }
    }

    /// No query has seen a key.
    pub(super) fn start(&mut self) {
        self.largest.fill(NOTHING_SEEN);
        self.total.fill(0.0);
    }

    /// These queries see nothing of the block that starts at a slot.
    pub(super) fn skip(&mut self, start: usize, queries: Range<usize>) {
        if self.keeps {
            for query in queries {
                let at = query * self.stride + start;
                self.scores[at..at + BLOCK_KEYS].fill(0.0);
                self.block_largest[query * self.blocks + start / BLOCK_KEYS] = NOTHING_SEEN;
            }
        }
    }

    /// Adds the kept weights of all queries, the mean over the `group` of each token.
    ///
    /// weights: `[blocks, BLOCK_KEYS]`
    #[inline(always)]
    pub(super) fn add_weights<L: Lanes>(&mut self, lanes: L, group: usize, weights: &mut [f32]) {
        let queries = self.total.len();
        for query in 0..queries {
            let mean = lanes.splat(1.0 / (self.total[query] * group as f32));
            let largest = lanes.splat(self.largest[query]);
            let blocks = &mut self.block_largest[query * self.blocks..(query + 1) * self.blocks];
            for factors in blocks.chunks_mut(L::COUNT) {
                let shrink = lanes.exp(lanes.sub(lanes.read(factors), largest));
                lanes.write(lanes.mul(shrink, mean), factors);
            }
        }
        for (block, weights) in weights.chunks_exact_mut(BLOCK_KEYS).enumerate() {
            for (i, sums) in weights.chunks_exact_mut(L::COUNT).enumerate() {
                let mut sum = lanes.read(sums);
                for query in 0..queries {
                    let at = query * self.stride + block * BLOCK_KEYS + i * L::COUNT;
                    let factor = lanes.splat(self.block_largest[query * self.blocks + block]);
                    sum = lanes.mul_add(lanes.read(&self.scores[at..]), factor, sum);
                }
                lanes.write(sum, sums);
            }
        }
    }
}
