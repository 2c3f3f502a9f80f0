//! Equal steps from a row's smallest number to its largest.
//!
//! The order of operations decides ties and is part of the format: numbers are multiplied by the
//! reciprocal of the scale, rounded with halves to even, and only then moved by the zero point.
//! Zero need not lie in the range. With four bits the first half of the row has the upper halves of
//! the bytes, the second half the lower ones.

use super::nibbles::pack_nibbles;

pub(super) struct Asymmetric {
    bits: u32,
}

/// Smallest scale: f32's distance from one to the next number.
const SCALE_LEAST: f32 = f32::EPSILON;
/// Largest zero point. A row whose numbers lie far from zero and close together takes a larger
/// scale instead of one that does not fit 32 bits.
const ZERO_MOST: f32 = (1 << 30) as f32;

impl Asymmetric {
    pub(super) const BITS_8: Asymmetric = Asymmetric { bits: 8 };
    pub(super) const BITS_4: Asymmetric = Asymmetric { bits: 4 };

    #[inline(always)]
    pub(super) fn encode(&self, row: &[f32], codes: &mut [u8], scales: &mut [u8]) {
        let least = row.iter().copied().fold(f32::INFINITY, f32::min);
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let steps = ((1 << self.bits) - 1) as f32;
        let size = least.abs().max(most.abs());
        let scale = ((most - least) / steps).max(SCALE_LEAST).max(size / ZERO_MOST);
        let zero = -((least / scale).round_ties_even() as i32);
        let per_step = 1.0 / scale;
        let code = |x: &f32| {
            let step = (x * per_step).round_ties_even() as i64 + i64::from(zero);
            step.clamp(0, (1 << self.bits) - 1) as u8
        };
        if self.bits == 8 {
            codes.iter_mut().zip(row).for_each(|(out, x)| *out = code(x));
        } else {
            let (high, low) = row.split_at(row.len() / 2);
            pack_nibbles(high.iter().map(code), low.iter().map(code), codes);
        }
        scales[..4].copy_from_slice(&scale.to_le_bytes());
        scales[4..].copy_from_slice(&zero.to_le_bytes());
    }

    pub(super) fn decode(&self, codes: &[u8], scales: &[u8], row: &mut [f32]) {
        let scale = f32::from_le_bytes(scales[..4].try_into().expect("four bytes of scale"));
        let zero = i32::from_le_bytes(scales[4..].try_into().expect("four bytes of zero point"));
        let number = |code: u8| (i64::from(code) - i64::from(zero)) as f32 * scale;
        if self.bits == 8 {
            row.iter_mut().zip(codes).for_each(|(x, code)| *x = number(*code));
        } else {
            let (high, low) = row.split_at_mut(row.len() / 2);
            high.iter_mut().zip(codes).for_each(|(x, code)| *x = number(code >> 4));
            low.iter_mut().zip(codes).for_each(|(x, code)| *x = number(code & 15));
        }
    }
}
