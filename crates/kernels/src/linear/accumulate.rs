//! Sums of scaled rows: `out[i] += Σ_k factor(i, k) * row(k)`.
//!
//! What gradients are made of: the factors are a tile of one matrix, the rows those of another that
//! lie dense in memory. An output is one chain of fused multiplications in the order of `k`,
//! however many rows are computed at once, so a row's result does not depend on the rows beside it.
//!
//! Roofline: `2 rows` flops per number of a row that is read from cache; four rows at once keep
//! the multipliers busy.

use crate::cpu::lanes::Lanes;

/// Rows whose sums stay in registers.
const GROUP: usize = 4;

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
    let whole = rows - rows % GROUP;
    for first in (0..whole).step_by(GROUP) {
        let outs = [out(first), out(first + 1), out(first + 2), out(first + 3)];
        add::<L, GROUP>(lanes, depth, |i, k| factor(first + i, k), &row, outs);
    }
    for i in whole..rows {
        add::<L, 1>(lanes, depth, |_, k| factor(i, k), &row, [out(i)]);
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
fn add<'r, L: Lanes, const M: usize>(
    lanes: L,
    depth: usize,
    factor: impl Fn(usize, usize) -> f32,
    row: &impl Fn(usize) -> &'r [f32],
    mut outs: [&mut [f32]; M],
) {
    let columns = outs[0].len();
    let step = 2 * L::COUNT;
    let whole = columns - columns % step;
    for at in (0..whole).step_by(step) {
        let mut sums = [[lanes.splat(0.0); 2]; M];
        for (sums, out) in sums.iter_mut().zip(&outs) {
            let (first, second) = out[at..at + step].split_at(L::COUNT);
            *sums = [lanes.read(first), lanes.read(second)];
        }
        for k in 0..depth {
            let (first, second) = row(k)[at..at + step].split_at(L::COUNT);
            let numbers = [lanes.read(first), lanes.read(second)];
            for (i, sums) in sums.iter_mut().enumerate() {
                let factor = lanes.splat(factor(i, k));
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
        for k in 0..depth {
            let numbers = lanes.read(&row(k)[part.clone()]);
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = lanes.mul_add(lanes.splat(factor(i, k)), numbers, *sum);
            }
        }
        for (sum, out) in sums.into_iter().zip(&mut outs) {
            lanes.write(sum, &mut out[part.clone()]);
        }
    }
}
