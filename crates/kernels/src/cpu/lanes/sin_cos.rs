//! The sine and cosine of a vector.
//!
//! `x = n pi + r` with `|r|` about `pi / 2` at most, so both are those of `r`, negative where `n`
//! is odd. `pi` is split in two: the first product takes from `x` without rounding, the second is
//! so small that `r` is good to its last bit. Of `r` there are polynomials of degree 13 and 12.
//! Up to 1,000,000 radians the error is below `2^-22` (`lanes/tests.rs` measures it); far beyond,
//! `n` is no longer the nearest, and `r` leaves what the polynomials are good for.

use super::Lanes;

const PI_HIGH: f32 = std::f32::consts::PI;
/// What `PI_HIGH` lacks.
const PI_LOW: f32 = -8.742_278e-8;

/// Taylor coefficients of `(sin(r) - r) / r³`, highest power first.
const SINE: [f32; 6] = [
    1.0 / 6_227_020_800.0,
    -1.0 / 39_916_800.0,
    1.0 / 362_880.0,
    -1.0 / 5040.0,
    1.0 / 120.0,
    -1.0 / 6.0,
];

/// Taylor coefficients of `(cos(r) - 1) / r²`, highest power first.
const COSINE: [f32; 6] =
    [1.0 / 479_001_600.0, -1.0 / 3_628_800.0, 1.0 / 40_320.0, -1.0 / 720.0, 1.0 / 24.0, -1.0 / 2.0];

#[inline(always)]
pub(super) fn sin_cos<L: Lanes>(lanes: L, x: L::Vector) -> [L::Vector; 2] {
    let n = lanes.round(lanes.mul(x, lanes.splat(std::f32::consts::FRAC_1_PI)));
    let r = lanes.mul_add(n, lanes.splat(-PI_HIGH), x);
    let r = lanes.mul_add(n, lanes.splat(-PI_LOW), r);
    let square = lanes.mul(r, r);
    let sine = polynomial(lanes, square, &SINE);
    let sine = lanes.mul_add(lanes.mul(square, r), sine, r);
    let cosine = lanes.mul_add(square, polynomial(lanes, square, &COSINE), lanes.splat(1.0));
    // Half of an odd number is half a unit from the nearest whole one.
    let half = lanes.mul(n, lanes.splat(0.5));
    let odd = lanes.sub(half, lanes.round(half));
    let sign = lanes.mul_add(lanes.mul(odd, lanes.splat(-8.0)), odd, lanes.splat(1.0));
    [lanes.mul(sine, sign), lanes.mul(cosine, sign)]
}

#[inline(always)]
fn polynomial<L: Lanes>(lanes: L, x: L::Vector, coefficients: &[f32; 6]) -> L::Vector {
    let mut p = lanes.splat(coefficients[0]);
    for &coefficient in &coefficients[1..] {
        p = lanes.mul_add(p, x, lanes.splat(coefficient));
    }
    p
}
