//! Some queries over all slots, block by block as [`attention`](crate::attention::blocks) says.

use std::ops::Range;

use super::block::{BlockPositions, ahead, fetch, kind};
use super::slot_task::SlotTask;
use super::work::Work;
use crate::attention::blocks::{
    BLOCK_KEYS, BlockRows, DIRECT_QUERIES, OutRows, QueryRows, RowType, ScoreRows, Weighing,
    add_weighted, carry_on, score,
};
use crate::cpu::lanes::Lanes;
use crate::pages::slot_pages::Side;

/// Queries of a part, numbered from `first` on.
pub(super) struct Tile<'a> {
    part: &'a SlotTask<'a>,
    first: usize,
    queries: usize,
    q: QueryRows<'a>,
    rerotated: QueryRows<'a>,
    out: OutRows<'a>,
}

/// A block's slots, and the queries that may see a token of it.
struct Looked<'a> {
    slots: Range<usize>,
    positions: &'a BlockPositions,
    queries: Range<usize>,
}

impl<'a> Tile<'a> {
    pub(super) fn new(part: &'a SlotTask<'a>, first: usize, queries: usize) -> Self {
        let q = part.q.after(first);
        let rerotated = part.rerotated.map_or(q, |rerotated| rerotated.after(first));
        Tile { part, first, queries, q, rerotated, out: part.out.after(first) }
    }

    /// Writes the results. Weights and what they are relative to stay in `work`.
    #[inline(always)]
    pub(super) fn attend<L: Lanes>(&self, lanes: L, work: &mut Work<'_>) {
        let part = self.part;
        work.start();
        for query in 0..self.queries {
            // SAFETY: one query at a time.
            unsafe { self.out.get(query) }.fill(0.0);
        }
        for start in (0..part.filled).step_by(BLOCK_KEYS) {
            let slots = start..part.filled.min(start + BLOCK_KEYS);
            let positions = &BlockPositions::read(part.pages, slots.clone(), part.position);
            let queries = self.looking(positions);
            work.skip(start, 0..queries.start);
            work.skip(start, queries.end..self.queries);
            if !queries.is_empty() {
                self.attend_block(lanes, &Looked { slots, positions, queries }, work);
            }
        }
        for query in 0..self.queries {
            let total = lanes.splat(work.total[query]);
            // SAFETY: one query at a time.
            for out in unsafe { self.out.get(query) }.chunks_mut(L::COUNT) {
                lanes.write(lanes.div(lanes.read(out), total), out);
            }
        }
    }

    /// The queries that may see a token of a block.
    fn looking(&self, positions: &BlockPositions) -> Range<usize> {
        let query = |token: i32| {
            let query = (token.max(0) as usize).saturating_mul(self.part.group);
            query.saturating_sub(self.first).min(self.queries)
        };
        let start = query(positions.least);
        let end = self.part.window.map_or(self.queries, |window| {
            let window = i32::try_from(window).unwrap_or(i32::MAX);
            query(positions.most.saturating_add(window))
        });
        start..end.max(start)
    }

    #[inline(always)]
    fn attend_block<L: Lanes>(&self, lanes: L, looked: &Looked<'_>, work: &mut Work<'_>) {
        let (part, slots) = (self.part, &looked.slots);
        // The next block arrives while this one is computed with.
        let next = slots.end..part.filled.min(slots.end + BLOCK_KEYS);
        let ahead = [Side::Keys, Side::Values]
            .map(|side| ahead(lanes, part.pages, side, next.clone(), self.direct(side)));
        let [keys_ahead, values_ahead] = &ahead;
        let wide = (&mut *work.keys, &mut *work.key_scales);
        let mut keys =
            fetch(lanes, part.pages, Side::Keys, slots.clone(), self.direct(Side::Keys), wide);
        if let Some(rotation) = part.rotation {
            let dim = part.pages.dim(Side::Keys);
            let wide = &mut work.keys[..slots.len() * dim];
            rotation.rotate(lanes, wide, dim, looked.positions);
            keys = BlockRows::of_wide(wide, dim);
        }
        let start = if work.keeps { slots.start } else { 0 };
        let mut scores = ScoreRows { numbers: &mut *work.scores, stride: work.stride, start };
        self.score(lanes, looked, [&keys, keys_ahead], &mut scores);

        let has_scales = |side| 0 < part.pages.format(side).scale_bytes();
        for query in looked.queries.clone() {
            let place = scores.part(query, 0..BLOCK_KEYS);
            let numbers = &mut scores.numbers[place];
            if has_scales(Side::Keys) {
                multiply(lanes, numbers, work.key_scales);
            }
            numbers[slots.len()..].fill(f32::NEG_INFINITY);
            self.hide(lanes, query, looked.positions, numbers);
            let state = (&mut work.largest[query], &mut work.total[query]);
            work.shrink[query] = carry_on(lanes, numbers, part.scale, state);
            if work.keeps {
                let block = slots.start / BLOCK_KEYS;
                work.block_largest[query * work.blocks + block] = work.largest[query];
            }
        }

        let wide = (&mut *work.values, &mut *work.value_scales);
        let direct = self.direct(Side::Values);
        let values = fetch(lanes, part.pages, Side::Values, slots.clone(), direct, wide);
        if has_scales(Side::Values) {
            for query in looked.queries.clone() {
                let place = scores.part(query, 0..BLOCK_KEYS);
                let scaled = &mut work.scaled[query * BLOCK_KEYS..(query + 1) * BLOCK_KEYS];
                scaled.copy_from_slice(&scores.numbers[place]);
                multiply(lanes, scaled, work.value_scales);
            }
            scores = ScoreRows { numbers: &mut *work.scaled, stride: BLOCK_KEYS, start: 0 };
        }
        let weighing = Weighing {
            out: self.out,
            rows: &values,
            ahead: values_ahead,
            keys: 0..slots.len(),
            weights: &scores,
            shrink: work.shrink,
        };
        // SAFETY: these queries are this task's, and no slice of their results is alive.
        unsafe { add_weighted(lanes, looked.queries.clone(), &weighing) };
    }

    /// How rows are read where they lie; `None` where they are widened.
    fn direct(&self, side: Side) -> Option<RowType> {
        if matches!(side, Side::Keys) && self.part.rotation.is_some() {
            return None;
        }
        let few = |&kind: &RowType| kind == RowType::F32 || self.queries <= DIRECT_QUERIES;
        kind(self.part.pages.format(side)).filter(few)
    }

    #[inline(always)]
    fn score<L: Lanes>(
        &self,
        lanes: L,
        looked: &Looked<'_>,
        keys: [&BlockRows<'_>; 2],
        scores: &mut ScoreRows<'_>,
    ) {
        let slots = &looked.slots;
        let protected = self.part.protected.clamp(slots.start, slots.end) - slots.start;
        for (q, keys_in) in [(&self.rerotated, 0..protected), (&self.q, protected..slots.len())] {
            score(lanes, q, looked.queries.clone(), keys, keys_in, scores);
        }
    }

    /// Makes the scores of tokens that a query does not see infinitely small.
    #[inline(always)]
    fn hide<L: Lanes>(
        &self,
        lanes: L,
        query: usize,
        positions: &BlockPositions,
        scores: &mut [f32],
    ) {
        let token = self.part.token(self.first + query);
        let oldest = self.part.window.map_or(i32::MIN, |window| {
            let window = i32::try_from(window).unwrap_or(i32::MAX);
            token.saturating_sub(window).saturating_add(1)
        });
        if positions.most <= token && oldest <= positions.least {
            return;
        }
        let (newest, oldest) = (lanes.splat(token as f32), lanes.splat(oldest as f32));
        let vectors = positions.since.chunks_exact(L::COUNT);
        for (scores, since) in scores.chunks_exact_mut(L::COUNT).zip(vectors) {
            let since = lanes.read(since);
            let seen = lanes.unless_less(lanes.splat(1.0), newest, since);
            let seen = lanes.unless_less(seen, since, oldest);
            // Infinite: above all scores where the token is seen, below where it is not.
            let limit = lanes.sub(seen, lanes.splat(0.5));
            let limit = lanes.mul(limit, lanes.splat(f32::INFINITY));
            lanes.write(lanes.min(lanes.read(scores), limit), scores);
        }
    }
}

#[inline(always)]
fn multiply<L: Lanes>(lanes: L, numbers: &mut [f32], factors: &[f32]) {
    for (x, factor) in numbers.chunks_exact_mut(L::COUNT).zip(factors.chunks_exact(L::COUNT)) {
        lanes.write(lanes.mul(lanes.read(x), lanes.read(factor)), x);
    }
}
