//! One row over vectors: one chain of sums per lane, then one tree.

use super::AffineRow;
use crate::cpu::lanes::Lanes;

#[inline(always)]
pub(super) fn norm<L: Lanes>(
    lanes: L,
    x: &[f32],
    affine: Option<AffineRow<'_>>,
    eps: f32,
    out: &mut [f32],
) {
    let (mean, factor) = statistics(lanes, x, eps);
    for (i, out) in out.chunks_mut(L::COUNT).enumerate() {
        let at = i * L::COUNT;
        lanes.write(normed(lanes, &x[at..], at, mean, factor, affine), out);
    }
}

/// A vector of a row from `at` on, normalised; `x` begins there.
#[inline(always)]
pub(crate) fn normed<L: Lanes>(
    lanes: L,
    x: &[f32],
    at: usize,
    mean: f32,
    factor: f32,
    affine: Option<AffineRow<'_>>,
) -> L::Vector {
    let centred = lanes.sub(lanes.read(x), lanes.splat(mean));
    let normed = lanes.mul(centred, lanes.splat(factor));
    match affine {
        Some(AffineRow { weight, bias }) => {
            lanes.mul_add(normed, lanes.read(&weight[at..]), lanes.read(&bias[at..]))
        }
        None => normed,
    }
}

/// The mean, and one over the standard deviation.
#[inline(always)]
pub(crate) fn statistics<L: Lanes>(lanes: L, x: &[f32], eps: f32) -> (f32, f32) {
    let count = x.len() as f32;
    let mut sums = lanes.splat(0.0);
    for x in x.chunks(L::COUNT) {
        sums = lanes.add(sums, lanes.read(x));
    }
    let mean = lanes.sum(sums) / count;
    let (centre, mut squares) = (lanes.splat(mean), lanes.splat(0.0));
    let whole = x.len() - x.len() % L::COUNT;
    for x in x[..whole].chunks_exact(L::COUNT) {
        let distance = lanes.sub(lanes.read(x), centre);
        squares = lanes.mul_add(distance, distance, squares);
    }
    let rest: f32 = x[whole..].iter().map(|x| (x - mean) * (x - mean)).sum();
    let variance = (lanes.sum(squares) + rest) / count;
    (mean, 1.0 / (variance + eps).sqrt())
}
