//! Sums of weighted values, a tile of queries at a time.
//!
//! A number of the output is one chain of fused multiplications over the keys in order, so it
//! does not depend on the queries beside it.

use std::ops::Range;

use super::Tile;
use super::simd::BLOCK_KEYS;
use crate::lanes::Lanes;

/// Vectors of a value that are summed side by side.
const VECTORS: usize = 4;

/// `out = out * shrink + weights * values` for the queries of `run`.
///
/// weights: `[queries, BLOCK_KEYS]`, of which `keys` count · values: `[keys, value_dim]`
#[inline(always)]
pub(super) fn add_weighted<L: Lanes>(
    lanes: L,
    tile: &Tile<'_>,
    run: Range<usize>,
    keys: Range<usize>,
    weights: &[f32],
    shrink: &[f32],
    values: &[f32],
) {
    let weights = |query: usize| &weights[query * BLOCK_KEYS..][keys.start..keys.end];
    let mut query = run.start;
    while query < run.end {
        let height = (run.end - query).min(L::TILE_ROWS);
        match height {
            1 => add_tile::<L, 1>(lanes, tile, query, &weights, shrink, values),
            2 => add_tile::<L, 2>(lanes, tile, query, &weights, shrink, values),
            3 => add_tile::<L, 3>(lanes, tile, query, &weights, shrink, values),
            4 => add_tile::<L, 4>(lanes, tile, query, &weights, shrink, values),
            5 => add_tile::<L, 5>(lanes, tile, query, &weights, shrink, values),
            _ => add_tile::<L, 6>(lanes, tile, query, &weights, shrink, values),
        }
        query += height;
    }
}

/// `M` queries from `query` on.
#[inline(always)]
fn add_tile<'a, L: Lanes, const M: usize>(
    lanes: L,
    tile: &Tile<'_>,
    query: usize,
    weights: &impl Fn(usize) -> &'a [f32],
    shrink: &[f32],
    values: &[f32],
) {
    let dim = tile.kv.value_dim();
    let weights: [&[f32]; M] = std::array::from_fn(|m| weights(query + m));
    let shrink: [f32; M] = std::array::from_fn(|m| shrink[query + m]);
    // SAFETY: these are different queries, and no other slice of them is alive.
    let mut out: [&mut [f32]; M] = std::array::from_fn(|m| unsafe { tile.out(query + m) });
    let wide = VECTORS * L::COUNT;
    let whole = dim - dim % wide;
    for at in (0..whole).step_by(wide) {
        add_columns::<L, M, VECTORS>(lanes, &weights, &shrink, values, &mut out, at..at + wide);
    }
    for at in (whole..dim).step_by(L::COUNT) {
        let columns = at..dim.min(at + L::COUNT);
        add_columns::<L, M, 1>(lanes, &weights, &shrink, values, &mut out, columns);
    }
}

/// The part of [`add_tile`] for `columns`, which fill `V` vectors (one may be cut short).
#[inline(always)]
fn add_columns<L: Lanes, const M: usize, const V: usize>(
    lanes: L,
    weights: &[&[f32]; M],
    shrink: &[f32; M],
    values: &[f32],
    out: &mut [&mut [f32]; M],
    columns: Range<usize>,
) {
    let dim = out[0].len();
    let keys = weights[0].len();
    let mut sums = [[lanes.splat(0.0); V]; M];
    for m in 0..M {
        let out = &out[m][columns.clone()];
        for v in 0..V {
            sums[m][v] = lanes.mul(lanes.read(&out[v * L::COUNT..]), lanes.splat(shrink[m]));
        }
    }
    for key in 0..keys {
        let value = &values[key * dim..(key + 1) * dim][columns.clone()];
        let mut vectors = [lanes.splat(0.0); V];
        for v in 0..V {
            vectors[v] = lanes.read(&value[v * L::COUNT..]);
        }
        for m in 0..M {
            let weight = lanes.splat(weights[m][key]);
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
