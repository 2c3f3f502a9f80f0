//! A task of a prompt's rows on the matrix units, as [`PromptWork`] says.
//!
//! Slots are in no order: what a query sees of a block follows from positions. Where weights are
//! wanted, scores are computed once more when a query's largest and its sum are known, so that no
//! more of them are kept than a block's.

use std::f32::consts::LOG2_E;
use std::ops::Range;

use half::bf16;

use super::block::{BlockPositions, fetch};
use super::slot_task::SlotTask;
use crate::attention::blocks::{
    BLOCK_KEYS, OutRows, PROMPT_TILE_QUERIES, PromptWork, Sight, as_bf16, pack_queries,
    prompt_floats, query_floats,
};
use crate::cpu::lanes::{Lanes, PanelKernel, PanelLanes, Tiles};
use crate::pages::slot_pages::Side;
use crate::tiles::{BLOCK_COLUMNS, PANEL_ROWS, TILE_ROWS, tiles_numbers};

pub(super) struct PromptTask<'a> {
    pub(super) task: SlotTask<'a>,
    pub(super) tiles: Tiles<'a>,
}

impl PanelKernel for PromptTask<'_> {
    type Output = ();

    fn reference(self) {
        unreachable!("without vectors there are no matrix units");
    }

    #[inline(always)]
    fn simd<S: PanelLanes>(mut self, lanes: S) {
        let memory = std::mem::take(&mut self.task.scratch);
        let mut weights = self.task.weights.take();
        let (task, most) = (&self.task, queries_in(memory.len(), &self.task));
        for first in (0..task.queries).step_by(most) {
            let queries = first..task.queries.min(first + most);
            let mut tile = PromptTile::new(lanes, task, self.tiles, queries, memory);
            tile.attend(lanes);
            if let Some(weights) = weights.as_deref_mut() {
                tile.add_weights(lanes, weights);
            }
        }
    }
}

/// Queries that may be taken at a time, a multiple of sixteen.
fn queries_in(memory: usize, task: &SlotTask<'_>) -> usize {
    let [key_dim, value_dim] = dims(task);
    let fits = |queries: &usize| {
        let queries = *queries;
        BLOCK_KEYS + query_floats(queries, key_dim) + prompt_floats(queries, key_dim, value_dim)
            <= memory
    };
    let mut sizes = (1..=PROMPT_TILE_QUERIES / TILE_ROWS).rev().map(|runs| runs * TILE_ROWS);
    sizes.find(fits).expect("sixteen queries fit into a worker's memory")
}

fn dims(task: &SlotTask<'_>) -> [usize; 2] {
    [Side::Keys, Side::Values].map(|side| task.pages.dim(side))
}

/// Some queries of a task.
struct PromptTile<'a> {
    task: &'a SlotTask<'a>,
    tiles: Tiles<'a>,
    queries: Range<usize>,
    out: OutRows<'a>,
    work: PromptWork<'a>,
    /// Tiles of the queries as protected keys meet them.
    rerotated: Option<&'a [bf16]>,
    /// `[BLOCK_KEYS]`
    scales: &'a mut [f32],
}

impl<'a> PromptTile<'a> {
    #[inline(always)]
    fn new<S: PanelLanes>(
        lanes: S,
        task: &'a SlotTask<'a>,
        tiles: Tiles<'a>,
        queries: Range<usize>,
        memory: &'a mut [f32],
    ) -> Self {
        let (scales, memory) = memory.split_at_mut(BLOCK_KEYS);
        let (count, [key_dim, _]) = (queries.len(), dims(task));
        let (rerotated, memory) = memory.split_at_mut(query_floats(count, key_dim));
        let mut work = PromptWork::divide(memory, count, dims(task));
        // Scores are powers of 2.
        let scale = task.scale * LOG2_E;
        work.pack_queries(lanes, &task.q.after(queries.start), count, scale);
        let rerotated = task.rerotated.filter(|_| 0 < task.protected).map(|rows| {
            let rerotated = as_bf16(rerotated);
            pack_queries(lanes, &rows.after(queries.start), count, scale, rerotated);
            &*rerotated
        });
        let out = task.out.after(queries.start);
        PromptTile { task, tiles, queries, out, work, rerotated, scales }
    }

    /// Writes the results.
    #[inline(always)]
    fn attend<S: PanelLanes>(&mut self, lanes: S) {
        for start in (0..self.task.filled).step_by(BLOCK_KEYS) {
            let Some((slots, positions)) = self.begin_block(lanes, start) else { continue };
            self.fetch(lanes, Side::Values, slots.clone());
            self.work.pack_values(lanes);
            for run in 0..self.runs() {
                if self.looks(&self.run(run), &positions) {
                    self.score(lanes, run, &slots, &positions);
                    self.work.weigh(lanes, self.tiles, run, 0..BLOCK_KEYS);
                }
            }
        }
        for run in 0..self.runs() {
            let first = run * TILE_ROWS;
            let queries = first..self.queries.len().min(first + TILE_ROWS);
            self.work.write(lanes, &self.out, queries);
        }
    }

    /// Adds the weights of all queries, the mean over the group of each token.
    ///
    /// weights: `[filled]`, filled up to whole blocks
    #[inline(always)]
    fn add_weights<S: PanelLanes>(&mut self, lanes: S, weights: &mut [f32]) {
        for (block, weights) in weights.chunks_exact_mut(BLOCK_KEYS).enumerate() {
            let block = self.begin_block(lanes, block * BLOCK_KEYS);
            let Some((slots, positions)) = block else { continue };
            let mut sums = [0.0; BLOCK_KEYS * PANEL_ROWS];
            for run in 0..self.runs() {
                if self.looks(&self.run(run), &positions) {
                    self.score(lanes, run, &slots, &positions);
                    let factors = self.factors(run);
                    self.work.add_weights(lanes.floats(), run, &factors, &mut sums);
                }
            }
            add_up(lanes, &mut sums, weights);
        }
    }

    /// What a weight of each query counts; 0 for those that there are not.
    #[inline(always)]
    fn factors(&self, run: usize) -> [f32; PANEL_ROWS] {
        let total = &self.work.seen(run).total;
        let mut factors = [0.0; PANEL_ROWS];
        for (factor, total) in factors.iter_mut().zip(total).take(self.run(run).len()) {
            *factor = 1.0 / (total * self.task.group as f32);
        }
        factors
    }

    /// Packs the keys of the slots from `start` on, a block of them; `None` where no query looks.
    #[inline(always)]
    fn begin_block<S: PanelLanes>(
        &mut self,
        lanes: S,
        start: usize,
    ) -> Option<(Range<usize>, BlockPositions)> {
        let pages = self.task.pages;
        let slots = start..self.task.filled.min(start + BLOCK_KEYS);
        let positions = BlockPositions::read(pages, slots.clone(), self.task.position);
        if !self.looks(&self.queries, &positions) {
            return None;
        }
        self.fetch(lanes, Side::Keys, slots.clone());
        if let Some(rotation) = self.task.rotation {
            let dim = pages.dim(Side::Keys);
            let keys = &mut self.work.wide_keys[..slots.len() * dim];
            rotation.rotate(lanes.floats(), keys, dim, &positions);
        }
        self.work.pack_keys(lanes);
        Some((slots, positions))
    }

    /// Puts a side of some slots into the memory for wide rows, and 0 behind them.
    #[inline(always)]
    fn fetch<S: PanelLanes>(&mut self, lanes: S, side: Side, slots: Range<usize>) {
        let (base, pages) = (lanes.floats(), self.task.pages);
        let (dim, count) = (pages.dim(side), slots.len());
        let wide = match side {
            Side::Keys => &mut *self.work.wide_keys,
            Side::Values => &mut *self.work.wide_values,
        };
        fetch(base, pages, side, slots, None, (&mut *wide, &mut *self.scales));
        wide[count * dim..].fill(0.0);
        if 0 < pages.format(side).scale_bytes() {
            for (row, scale) in wide.chunks_exact_mut(dim).zip(&*self.scales).take(count) {
                let scale = base.splat(*scale);
                for numbers in row.chunks_mut(<S::Floats as Lanes>::COUNT) {
                    base.write(base.mul(base.read(numbers), scale), numbers);
                }
            }
        }
    }

    /// Sixteen queries each.
    fn runs(&self) -> usize {
        self.queries.len().div_ceil(TILE_ROWS)
    }

    fn run(&self, run: usize) -> Range<usize> {
        let first = self.queries.start + run * TILE_ROWS;
        first..self.queries.end.min(first + TILE_ROWS)
    }

    /// Whether some of these queries may see a token of a block.
    fn looks(&self, queries: &Range<usize>, positions: &BlockPositions) -> bool {
        let newest = self.task.token(queries.end - 1);
        positions.least <= newest && self.oldest(queries.start) <= positions.most
    }

    /// The first token that a query sees.
    fn oldest(&self, query: usize) -> i32 {
        self.task.window.map_or(i32::MIN, |window| {
            let window = i32::try_from(window).unwrap_or(i32::MAX);
            self.task.token(query).saturating_sub(window).saturating_add(1)
        })
    }

    /// The scores of a run's queries with the packed keys, hidden ones infinitely small.
    #[inline(always)]
    fn score<S: PanelLanes>(
        &mut self,
        lanes: S,
        run: usize,
        slots: &Range<usize>,
        positions: &BlockPositions,
    ) {
        self.work.score(self.tiles, run, 0..BLOCK_KEYS);
        self.score_protected(run, slots);
        let queries = self.run(run);
        let (first, last) = (queries.start, queries.end - 1);
        let sees_all = positions.most <= self.task.token(first)
            && self.oldest(last) <= positions.least
            && slots.len() == BLOCK_KEYS;
        if sees_all {
            return;
        }
        let mut sight = Sight { oldest: [0.0; TILE_ROWS], newest: [0.0; TILE_ROWS] };
        for i in 0..TILE_ROWS {
            // Rows behind the last query do as it does.
            let query = last.min(first + i);
            sight.oldest[i] = self.oldest(query) as f32;
            sight.newest[i] = self.task.token(query) as f32;
        }
        sight.hide(lanes.floats(), self.work.scores(BLOCK_KEYS), &positions.since);
    }

    /// Protected keys, which come first, meet the queries as they see them.
    #[inline(always)]
    fn score_protected(&mut self, run: usize, slots: &Range<usize>) {
        let protected = self.task.protected.clamp(slots.start, slots.end) - slots.start;
        let Some(rerotated) = self.rerotated.filter(|_| 0 < protected) else { return };
        let numbers = tiles_numbers(self.task.pages.dim(Side::Keys));
        let mut scores = [0.0; BLOCK_KEYS * TILE_ROWS];
        let keys = protected.next_multiple_of(BLOCK_COLUMNS);
        let scores = &mut scores[..keys * TILE_ROWS];
        self.work.score_others(self.tiles, &rerotated[run * numbers..][..numbers], scores);
        let protected = protected * TILE_ROWS;
        self.work.scores(BLOCK_KEYS)[..protected].copy_from_slice(&scores[..protected]);
    }
}

/// Adds each key's sums over the queries · sums: `[BLOCK_KEYS, 16]` · weights: `[BLOCK_KEYS]`
#[inline(always)]
fn add_up<S: PanelLanes>(lanes: S, sums: &mut [f32], weights: &mut [f32]) {
    let (base, count) = (lanes.floats(), <S::Floats as Lanes>::COUNT);
    let squares = sums.as_chunks_mut::<PANEL_ROWS>().0.as_chunks_mut::<PANEL_ROWS>().0;
    for (square, weights) in squares.iter_mut().zip(weights.chunks_exact_mut(PANEL_ROWS)) {
        lanes.transpose(square);
        for at in (0..PANEL_ROWS).step_by(count) {
            let mut sum = base.read(&weights[at..]);
            for queries in &*square {
                sum = base.add(sum, base.read(&queries[at..]));
            }
            base.write(sum, &mut weights[at..]);
        }
    }
}
