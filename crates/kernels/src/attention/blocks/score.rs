//! Scores: the products of queries with the keys of a block.

use std::ops::Range;

use super::QueryRows;
use super::block_rows::{Bf16s, BlockRows, F16s, F32s, Numbers, RowType};
use crate::cpu::lanes::Lanes;
use crate::tiles::{GROUP, tile};

/// Where scores go, and weights after them: a query's in a row, block after block.
pub(crate) struct ScoreRows<'a> {
    pub(crate) numbers: &'a mut [f32],
    /// From one query to the next.
    pub(crate) stride: usize,
    /// To the first key of the block.
    pub(crate) start: usize,
}

impl ScoreRows<'_> {
    /// Where some keys of the block are.
    #[inline(always)]
    pub(crate) fn part(&self, query: usize, keys: Range<usize>) -> Range<usize> {
        let start = query * self.stride + self.start;
        start + keys.start..start + keys.end
    }
}

/// Writes the scores of the queries of `run` with the rows `keys` of a block, and asks for the same
/// rows of the block `ahead`, one by one: all at once would wait for memory.
#[inline(always)]
pub(crate) fn score<L: Lanes>(
    lanes: L,
    queries: &QueryRows<'_>,
    run: Range<usize>,
    [rows, ahead]: [&BlockRows<'_>; 2],
    keys: Range<usize>,
    scores: &mut ScoreRows<'_>,
) {
    assert!(keys.end <= rows.len(), "keys {keys:?} of {}", rows.len());
    if keys.is_empty() {
        return;
    }
    // SAFETY: the rows' kind, and keys that are there.
    unsafe {
        match rows.kind() {
            RowType::F32 => score_kind::<L, F32s>(lanes, queries, run, [rows, ahead], keys, scores),
            RowType::F16 => score_kind::<L, F16s>(lanes, queries, run, [rows, ahead], keys, scores),
            RowType::Bf16 => {
                score_kind::<L, Bf16s>(lanes, queries, run, [rows, ahead], keys, scores);
            }
        }
    }
}

/// # Safety
/// `N` is the rows' kind, and they have `keys`.
#[inline(always)]
unsafe fn score_kind<L: Lanes, N: Numbers>(
    lanes: L,
    queries: &QueryRows<'_>,
    run: Range<usize>,
    rows: [&BlockRows<'_>; 2],
    keys: Range<usize>,
    scores: &mut ScoreRows<'_>,
) {
    let mut query = run.start;
    while query < run.end {
        let height = (run.end - query).min(L::TILE_ROWS);
        let keys = keys.clone();
        // One query alone needs eight independent sums to keep the multipliers busy.
        // SAFETY: the caller's contract.
        unsafe {
            match height {
                1 => panel::<L, N, 1, 8>(lanes, queries, query, rows, keys, scores),
                2 => panel::<L, N, 2, 4>(lanes, queries, query, rows, keys, scores),
                3 => panel::<L, N, 3, 4>(lanes, queries, query, rows, keys, scores),
                4 => panel::<L, N, 4, 4>(lanes, queries, query, rows, keys, scores),
                5 => panel::<L, N, 5, 4>(lanes, queries, query, rows, keys, scores),
                _ => panel::<L, N, 6, 4>(lanes, queries, query, rows, keys, scores),
            }
        }
        query += height;
    }
}

/// `M` queries from `query` on, `K` keys at a time.
///
/// # Safety
/// As of [`score_kind`].
#[inline(always)]
unsafe fn panel<L: Lanes, N: Numbers, const M: usize, const K: usize>(
    lanes: L,
    queries: &QueryRows<'_>,
    query: usize,
    [rows, ahead]: [&BlockRows<'_>; 2],
    keys: Range<usize>,
    scores: &mut ScoreRows<'_>,
) {
    let x: [&[f32]; M] = std::array::from_fn(|m| queries.get(query + m));
    for first in keys.clone().step_by(K) {
        // Past the last key, the last once more; its score is not written again.
        // SAFETY: the caller's contract.
        let mut tile_rows = [unsafe { rows.row::<N>(first) }; K];
        for (k, row) in tile_rows.iter_mut().enumerate() {
            // SAFETY: the caller's contract.
            *row = unsafe { rows.row::<N>((first + k).min(keys.end - 1)) };
            ahead.prefetch(lanes, first + k, 0..x[0].len());
        }
        let products = tile(lanes, x, tile_rows, x[0].len());
        for (m, products) in products.iter().enumerate() {
            for (i, values) in products.as_chunks::<GROUP>().0.iter().enumerate() {
                let at = (first + i * GROUP).min(keys.end);
                let part = scores.part(query + m, at..keys.end.min(at + GROUP));
                let out = &mut scores.numbers[part];
                match out.first_chunk_mut() {
                    Some(out) => *out = *values,
                    // One by one: of two copies the compiler would make one call of memcpy.
                    None => out.iter_mut().zip(values).for_each(|(out, value)| *out = *value),
                }
            }
        }
    }
}
