//! Sums of weighted values, a few queries at a time.
//!
//! A number of the output is one chain of fused multiplications over the keys in order, so it
//! does not depend on the queries beside it.

use std::ops::Range;

use super::block_rows::{Bf16s, BlockRows, F16s, F32s, Numbers, RowType};
use super::{OutRows, ScoreRows};
use crate::cpu::lanes::Lanes;
use crate::tiles::Row;

/// Vectors of a value that are summed side by side.
const VECTORS: usize = 4;

/// What is added to the queries of a run.
pub(crate) struct Weighing<'a> {
    pub(crate) out: OutRows<'a>,
    pub(crate) rows: &'a BlockRows<'a>,
    /// The block whose rows are asked for meanwhile, one by one.
    pub(crate) ahead: &'a BlockRows<'a>,
    /// Rows of the block that count.
    pub(crate) keys: Range<usize>,
    pub(crate) weights: &'a ScoreRows<'a>,
    /// `[queries]`: what the earlier sums are scaled by.
    pub(crate) shrink: &'a [f32],
}

/// `out = out * shrink + weights * values` for the queries of `run`.
///
/// # Safety
/// Nobody else holds a slice of these queries' results.
#[inline(always)]
pub(crate) unsafe fn add_weighted<L: Lanes>(lanes: L, run: Range<usize>, weighing: &Weighing<'_>) {
    let rows = weighing.rows;
    assert!(weighing.keys.end <= rows.len(), "keys {:?} of {}", weighing.keys, rows.len());
    assert_eq!(rows.dim(), weighing.out.dim(), "numbers of values");
    // SAFETY: the rows' kind, keys that are there, and the caller's contract.
    unsafe {
        match rows.kind() {
            RowType::F32 => add_kind::<L, F32s>(lanes, run, weighing),
            RowType::F16 => add_kind::<L, F16s>(lanes, run, weighing),
            RowType::Bf16 => add_kind::<L, Bf16s>(lanes, run, weighing),
        }
    }
}

/// # Safety
/// As of [`add_weighted`]; `N` is the rows' kind, and they have the keys and numbers that count.
#[inline(always)]
unsafe fn add_kind<L: Lanes, N: Numbers>(lanes: L, run: Range<usize>, weighing: &Weighing<'_>) {
    let mut query = run.start;
    while query < run.end {
        let height = (run.end - query).min(L::TILE_ROWS);
        // SAFETY: the caller's contract.
        unsafe {
            match height {
                1 => add_tile::<L, N, 1>(lanes, query, weighing),
                2 => add_tile::<L, N, 2>(lanes, query, weighing),
                3 => add_tile::<L, N, 3>(lanes, query, weighing),
                4 => add_tile::<L, N, 4>(lanes, query, weighing),
                5 => add_tile::<L, N, 5>(lanes, query, weighing),
                _ => add_tile::<L, N, 6>(lanes, query, weighing),
            }
        }
        query += height;
    }
}

/// `M` queries from `query` on.
///
/// # Safety
/// As of [`add_kind`].
#[inline(always)]
unsafe fn add_tile<L: Lanes, N: Numbers, const M: usize>(
    lanes: L,
    query: usize,
    weighing: &Weighing<'_>,
) {
    let (rows, keys, dim) = ([weighing.rows, weighing.ahead], &weighing.keys, weighing.out.dim());
    let scores = weighing.weights;
    let weights: [&[f32]; M] =
        std::array::from_fn(|m| &scores.numbers[scores.part(query + m, keys.clone())]);
    let shrink: [f32; M] = std::array::from_fn(|m| weighing.shrink[query + m]);
    // SAFETY: these are different queries, and the caller's contract.
    let mut out: [&mut [f32]; M] = std::array::from_fn(|m| unsafe { weighing.out.get(query + m) });
    let wide = VECTORS * L::COUNT;
    let whole = dim - dim % wide;
    for at in (0..whole).step_by(wide) {
        let columns = at..at + wide;
        // SAFETY: the caller's contract.
        unsafe {
            add_columns::<L, N, M, VECTORS>(
                lanes, &weights, &shrink, rows, keys, &mut out, columns,
            );
        }
    }
    for at in (whole..dim).step_by(L::COUNT) {
        let columns = at..dim.min(at + L::COUNT);
        // SAFETY: the caller's contract.
        unsafe {
            add_columns::<L, N, M, 1>(lanes, &weights, &shrink, rows, keys, &mut out, columns);
        }
    }
}

/// The part of [`add_tile`] for `columns`, which fill `V` vectors (one may be cut short).
///
/// # Safety
/// As of [`add_kind`].
#[inline(always)]
unsafe fn add_columns<L: Lanes, N: Numbers, const M: usize, const V: usize>(
    lanes: L,
    weights: &[&[f32]; M],
    shrink: &[f32; M],
    [rows, ahead]: [&BlockRows<'_>; 2],
    keys: &Range<usize>,
    out: &mut [&mut [f32]; M],
    columns: Range<usize>,
) {
    let count = if V == 1 { columns.len() } else { L::COUNT };
    let mut sums = [[lanes.splat(0.0); V]; M];
    for m in 0..M {
        let out = &out[m][columns.clone()];
        for v in 0..V {
            sums[m][v] = lanes.mul(lanes.read(&out[v * L::COUNT..]), lanes.splat(shrink[m]));
        }
    }
    for (i, key) in keys.clone().enumerate() {
        // SAFETY: the caller's contract.
        let row = unsafe { rows.row::<N>(key) };
        ahead.prefetch(lanes, key, columns.clone());
        let mut vectors = [lanes.splat(0.0); V];
        for (v, vector) in vectors.iter_mut().enumerate() {
            // SAFETY: the columns are inside the row.
            *vector = unsafe { row.load(lanes, columns.start + v * L::COUNT, count) };
        }
        for m in 0..M {
            let weight = lanes.splat(weights[m][i]);
            for v in 0..V {
                sums[m][v] = lanes.mul_add(weight, vectors[v], sums[m][v]);
            }
        }
    }
    for m in 0..M {
        let out = &mut out[m][columns.clone()];
        for v in 0..V {
            lanes.write(sums[m][v], &mut out[v * L::COUNT..]);
        }
    }
}
