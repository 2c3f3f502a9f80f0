//! The items that queries score highest: exact, over all rows of a table.
//!
//! queries: f32 `[queries, dim]` · items: f32 `[items, dim]` · out: the best of each query, f32
//! scores and i32 rows `[queries, most]`, in no order; -1 where there are fewer. Of equal scores
//! the first rows win. A score that is no number, and an item that is left out, is never among
//! them.
//!
//! Roofline: 4 bytes for each number of the table, and 2 flops for each with each query: bound by
//! memory bandwidth.

pub(crate) mod cuda;
pub(crate) mod reference;

use std::cmp::Ordering;

use terrace_device::{DType, SharedRows, View, ViewMut};

use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::linear::vector::Vector;

pub struct TopItemsArgs<'a> {
    /// f32 `[queries, dim]`; at most [`TopItemsArgs::QUERIES`]
    pub queries: View<'a>,
    /// f32 `[items, dim]`
    pub items: View<'a>,
    /// f32 `[items]`: what an item's scores are multiplied by
    pub item_scale: Option<&'a Vector>,
    /// i32 `[queries + 1]`: where each query's part of `excluded` starts
    pub excluded_starts: View<'a>,
    /// i32: rows that are left out
    pub excluded: View<'a>,
    /// u8: as much as is asked for by `top_items_scratch_bytes`
    pub scratch: ViewMut<'a>,
    /// f32 `[queries, most]`
    pub scores: ViewMut<'a>,
    /// i32 `[queries, most]`
    pub rows: ViewMut<'a>,
}

impl TopItemsArgs<'_> {
    /// Queries of one call.
    pub const QUERIES: usize = 8;

    fn check(&self) -> [usize; 4] {
        let ([queries, dim], [items, item_dim]) = (self.queries.dims(), self.items.dims());
        let [_, most] = self.scores.dims();
        assert!(queries <= Self::QUERIES, "{queries} queries, at most {}", Self::QUERIES);
        assert_eq!(item_dim, dim, "numbers of an item and of a query");
        assert_eq!(self.scores.dims(), [queries, most], "scores of top_items");
        assert_eq!(self.rows.dims(), [queries, most], "rows of top_items");
        assert_eq!(self.excluded_starts.dims(), [queries + 1], "starts of what is left out");
        let numbers = [self.queries.dtype(), self.items.dtype(), self.scores.dtype()];
        assert_eq!(numbers, [DType::F32; 3], "types of top_items");
        let ids = [self.excluded_starts.dtype(), self.excluded.dtype(), self.rows.dtype()];
        assert_eq!(ids, [DType::I32; 3], "types of rows");
        if let Some(scale) = self.item_scale {
            assert_eq!(scale.view().shape().count(), items, "a scale for each item");
        }
        [queries, items, dim, most]
    }
}

/// Items of a task.
const BLOCK: usize = 512;

/// Bytes that the CPU works in.
pub(crate) fn scratch_bytes(items: usize) -> usize {
    items.div_ceil(BLOCK) * BLOCK * TopItemsArgs::QUERIES * size_of::<f32>()
}

pub(crate) fn top_items(ctx: &CpuCtx, mut args: TopItemsArgs<'_>) {
    let [queries, items, _, _] = args.check();
    let blocks = items.div_ceil(BLOCK);
    let width = queries * BLOCK;
    let scratch = args.scratch.reborrow().first(blocks * width * size_of::<f32>());
    let mut scratch = scratch.cast_bytes(DType::F32, [blocks, width]);
    {
        let blocks = SharedRows::<f32>::new(&mut scratch);
        let (queries, items, scale) = (args.queries, args.items, args.item_scale);
        ctx.workers().run(blocks.rows(), &|_, block| {
            // SAFETY: each block is one task's.
            let out = unsafe { blocks.row_mut(block) };
            let first = block * BLOCK;
            ctx.simd.run(ScoreBlock { queries, items, first, out });
            if let Some(scale) = scale {
                let scale = &scale.view().as_slice::<f32>()[first..];
                for scores in out.chunks_exact_mut(BLOCK) {
                    scores.iter_mut().zip(scale).for_each(|(score, scale)| *score *= scale);
                }
            }
        });
    }
    let starts = args.excluded_starts.as_slice::<i32>();
    let excluded = args.excluded.as_slice::<i32>();
    for query in 0..queries {
        let at = |row: usize| (row / BLOCK, query * BLOCK + row % BLOCK);
        for row in &excluded[starts[query] as usize..starts[query + 1] as usize] {
            let (block, index) = at(*row as usize);
            scratch.row_mut::<f32>(block)[index] = f32::NEG_INFINITY;
        }
    }
    let scores = SharedRows::<f32>::new(&mut args.scores);
    let rows = SharedRows::<i32>::new(&mut args.rows);
    let scratch = scratch.as_view();
    ctx.workers().run(queries, &|_, query| {
        let of_block = |block: usize| &scratch.row::<f32>(block)[query * BLOCK..][..BLOCK];
        let all = (0..blocks).flat_map(of_block).copied().take(items);
        // SAFETY: each query is one task's.
        let (scores, rows) = unsafe { (scores.row_mut(query), rows.row_mut(query)) };
        keep_best(all, scores, rows);
    });
}

/// The best of some scores, of which as many are kept as there is room for.
fn keep_best(all: impl Iterator<Item = f32>, scores: &mut [f32], rows: &mut [i32]) {
    let most = scores.len();
    // Best first. A score is looked at closely only if it beats the least of the best before it.
    let better =
        |a: &(f32, i32), b: &(f32, i32)| -> Ordering { b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)) };
    let mut best: Vec<(f32, i32)> = Vec::with_capacity(2 * most + 1);
    let mut floor = f32::NEG_INFINITY;
    for (row, score) in all.enumerate() {
        // Of two zeros none is less.
        let score = score + 0.0;
        if floor < score {
            best.push((score, row as i32));
            if best.len() == 2 * most {
                best.select_nth_unstable_by(most - 1, better);
                best.truncate(most);
                floor = best[most - 1].0;
            }
        }
    }
    best.sort_unstable_by(better);
    best.resize(most, (f32::NEG_INFINITY, -1));
    for ((score, row), kept) in scores.iter_mut().zip(rows).zip(best) {
        (*score, *row) = kept;
    }
}

/// Scores of a block of items with every query.
struct ScoreBlock<'a> {
    queries: View<'a>,
    items: View<'a>,
    first: usize,
    /// `[queries, BLOCK]`
    out: &'a mut [f32],
}

impl Kernel for ScoreBlock<'_> {
    fn reference(self) {
        let [items, _] = self.items.dims();
        for (query, out) in self.out.chunks_exact_mut(BLOCK).enumerate() {
            let query = self.queries.row::<f32>(query);
            for (row, score) in (self.first..items).zip(out) {
                *score = reference::score(query, self.items.row(row));
            }
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let [items, _] = self.items.dims();
        for (index, row) in (self.first..items.min(self.first + BLOCK)).enumerate() {
            let item = self.items.row::<f32>(row);
            for (query, out) in self.out.chunks_exact_mut(BLOCK).enumerate() {
                out[index] = dot(lanes, self.queries.row(query), item);
            }
        }
    }
}

/// Four chains of sums.
#[inline(always)]
fn dot<L: Lanes>(lanes: L, a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [lanes.splat(0.0); 4];
    let whole = a.len() - a.len() % (4 * L::COUNT);
    let runs = a[..whole].chunks_exact(4 * L::COUNT).zip(b[..whole].chunks_exact(4 * L::COUNT));
    for (a, b) in runs {
        for (chain, sum) in sums.iter_mut().enumerate() {
            let at = chain * L::COUNT;
            *sum = lanes.mul_add(lanes.read(&a[at..]), lanes.read(&b[at..]), *sum);
        }
    }
    for (a, b) in a[whole..].chunks(L::COUNT).zip(b[whole..].chunks(L::COUNT)) {
        sums[0] = lanes.mul_add(lanes.read(a), lanes.read(b), sums[0]);
    }
    let [a, b, c, d] = sums;
    lanes.sum(lanes.add(lanes.add(a, b), lanes.add(c, d)))
}
