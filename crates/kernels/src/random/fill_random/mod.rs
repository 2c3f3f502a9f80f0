//! Random weights, for measurements: number `i` is a function of a seed and of `i`, the same on
//! every device.
//!
//! out: f32, f16 or bf16 near-normal numbers, or random bits
//!
//! Roofline: one Philox call (about 80 integer operations) per number; bound by arithmetic.

pub(crate) mod cuda;
pub(crate) mod reference;
