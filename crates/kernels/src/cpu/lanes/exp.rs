//! The exponential of a vector, exactly and cheaply.
//!
//! `exp(x) = 2^n exp(r)` with `n = round(x / ln 2)` and `|r| <= ln 2 / 2`. `ln 2` is split in two
//! so that `r` is exact to the last bit, and `exp(r)` is a polynomial of degree 7. The error is
//! below 2 units in the last place (`lanes/tests.rs` measures it), except that results too small
//! for a normal f32 are 0: the processor would compute them in microcode, at 30 times the price,
//! and hidden keys of attention ask for nothing else.

use super::Lanes;

/// Below, the result is 0.
const LEAST: f32 = -87.3;
/// Above, the result is infinite.
const MOST: f32 = 89.0;

/// Below, the result of [`exp2`] is 0.
const LEAST_POWER: f32 = -125.0;

const LN_2_HIGH: f32 = 355.0 / 512.0;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// Taylor coefficients of `(exp(r) - 1 - r) / r²`, highest power first.
const COEFFICIENTS: [f32; 6] =
    [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 1.0 / 2.0];

/// Coefficients of `(2^r - 1) / r` where it meets the Chebyshev nodes of `|r| <= 1/2`, highest
/// power first.
const COEFFICIENTS_2: [f32; 5] =
    [0.001_338_130_2, 0.009_666_368, 0.055_503_81, 0.240_223_5, std::f32::consts::LN_2];

#[inline(always)]
pub(super) fn exp<L: Lanes>(lanes: L, x: L::Vector) -> L::Vector {
    // In this order a NaN comes out as it went in.
    let clamped = lanes.min(lanes.splat(MOST), lanes.max(lanes.splat(LEAST), x));
    let power = lanes.round(lanes.mul(clamped, lanes.splat(std::f32::consts::LOG2_E)));
    let r = lanes.mul_add(power, lanes.splat(-LN_2_HIGH), clamped);
    let r = lanes.mul_add(power, lanes.splat(-LN_2_LOW), r);
    let mut p = lanes.splat(COEFFICIENTS[0]);
    for &coefficient in &COEFFICIENTS[1..] {
        p = lanes.mul_add(p, r, lanes.splat(coefficient));
    }
    let p = lanes.mul_add(lanes.mul(r, r), p, lanes.add(r, lanes.splat(1.0)));
    lanes.unless_less(lanes.times_power_of_two(p, power), x, lanes.splat(LEAST))
}

/// `2^x` for `x < 128`, with a relative error below `2^-21`, and exactly 1 for 0.
#[inline(always)]
pub(super) fn exp2<L: Lanes>(lanes: L, x: L::Vector) -> L::Vector {
    let least = lanes.splat(LEAST_POWER);
    // In this order a NaN comes out as it went in.
    let clamped = lanes.max(least, x);
    let power = lanes.round(clamped);
    let r = lanes.sub(clamped, power);
    let mut p = lanes.splat(COEFFICIENTS_2[0]);
    for &coefficient in &COEFFICIENTS_2[1..] {
        p = lanes.mul_add(p, r, lanes.splat(coefficient));
    }
    let p = lanes.mul_add(p, r, lanes.splat(1.0));
    lanes.unless_less(lanes.times_power_of_two(p, power), x, least)
}
