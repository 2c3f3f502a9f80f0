//! Sums of scaled rows: `out[i] += Σ_k factor(i, k) * row(k)`.
//!
//! What gradients are made of: the factors are a tile of one matrix, the rows those of another that
//! lie dense in memory. An output is one chain of fused multiplications in the order of `k`,
//! however many rows are computed at once, so a row's result does not depend on the rows beside it.
//!
//! Roofline: `2 rows` flops per number of a row that is read from cache; four rows at once keep
//! the multipliers busy. Factors and rows are looked up once for a tile: the inner loop calls
//! nothing.

use crate::cpu::lanes::Lanes;

/// Rows whose sums stay in registers.
const GROUP: usize = 4;
/// Rows that are added to all of them before the next ones.
const DEPTH: usize = 64;

/// Adds to the rows `out(0..rows)`, which have as many numbers as each of the `depth` rows.
#[inline(always)]
pub(crate) fn accumulate<'o, 'r, L: Lanes>(
    lanes: L,
    rows: usize,
    depth: usize,
    factor: impl Fn(usize, usize) -> f32,
    row: impl Fn(usize) -> &'r [f32],
    out: impl Fn(usize) -> &'o mut [f32],
) {
    let mut tile: [&[f32]; DEPTH] = [&[]; DEPTH];
    for start in (0..depth).step_by(DEPTH) {
        let tile = &mut tile[..DEPTH.min(depth - start)];
        for (k, tile) in tile.iter_mut().enumerate() {
            *tile = row(start + k);
        }
        let whole = rows - rows % GROUP;
        for first in (0..whole).step_by(GROUP) {
            let outs = [out(first), out(first + 1), out(first + 2), out(first + 3)];
            add::<L, GROUP>(lanes, |i, k| factor(first + i, start + k), tile, outs);
        }
        for i in whole..rows {
            add::<L, 1>(lanes, |_, k| factor(i, start + k), tile, [out(i)]);
        }
    }
}

/// As [`accumulate`], in plain order with sums in f64: the specification.
pub(crate) fn accumulate_plainly<'o, 'r>(
    rows: usize,
    depth: usize,
    factor: impl Fn(usize, usize) -> f32,
    row: impl Fn(usize) -> &'r [f32],
    out: impl Fn(usize) -> &'o mut [f32],
) {
    for i in 0..rows {
        for (column, out) in out(i).iter_mut().enumerate() {
            let products = (0..depth).map(|k| f64::from(factor(i, k)) * f64::from(row(k)[column]));
            *out = (f64::from(*out) + products.sum::<f64>()) as f32;
        }
    }
}

#[inline(always)]
fn add<L: Lanes, const M: usize>(
    lanes: L,
    factor: impl Fn(usize, usize) -> f32,
    rows: &[&[f32]],
    mut outs: [&mut [f32]; M],
) {
    let mut factors = [[0.0; M]; DEPTH];
    let factors = &mut factors[..rows.len()];
    for (k, factors) in factors.iter_mut().enumerate() {
        for (i, packed) in factors.iter_mut().enumerate() {
            *packed = factor(i, k);
        }
    }
    let columns = outs[0].len();
    let step = 2 * L::COUNT;
    let whole = columns - columns % step;
    for at in (0..whole).step_by(step) {
        let mut sums = [[lanes.splat(0.0); 2]; M];
        for (sums, out) in sums.iter_mut().zip(&outs) {
            let (first, second) = out[at..at + step].split_at(L::COUNT);
            *sums = [lanes.read(first), lanes.read(second)];
        }
        for (row, factors) in rows.iter().zip(&*factors) {
            let (first, second) = row[at..at + step].split_at(L::COUNT);
            let numbers = [lanes.read(first), lanes.read(second)];
            for (sums, factor) in sums.iter_mut().zip(factors) {
                let factor = lanes.splat(*factor);
                sums[0] = lanes.mul_add(factor, numbers[0], sums[0]);
                sums[1] = lanes.mul_add(factor, numbers[1], sums[1]);
            }
        }
        for (sums, out) in sums.into_iter().zip(&mut outs) {
            let (first, second) = out[at..at + step].split_at_mut(L::COUNT);
            lanes.write(sums[0], first);
            lanes.write(sums[1], second);
        }
    }
    // What is left of the rows, a vector or a part of one at a time.
    for at in (whole..columns).step_by(L::COUNT) {
        let part = at..columns.min(at + L::COUNT);
        let mut sums = [lanes.splat(0.0); M];
        for (sum, out) in sums.iter_mut().zip(&outs) {
            *sum = lanes.read(&out[part.clone()]);
        }
        for (row, factors) in rows.iter().zip(&*factors) {
            let numbers = lanes.read(&row[part.clone()]);
            for (sum, factor) in sums.iter_mut().zip(factors) {
                *sum = lanes.mul_add(lanes.splat(*factor), numbers, *sum);
            }
        }
        for (sum, out) in sums.into_iter().zip(&mut outs) {
            lanes.write(sum, &mut out[part.clone()]);
        }
    }
}
