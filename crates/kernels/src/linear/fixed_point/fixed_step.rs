//! What one is, of the integers of a block.

/// The largest magnitude of an integer. 128 products of two of them fit into 32 bits with a sign.
pub(super) const MOST: f32 = 4095.0;
/// Of a magnitude, without the sign.
const BITS: i32 = 12;
const EXPONENT_BIAS: i32 = 127;
const FRACTION_BITS: u32 = 23;
/// Next to nothing becomes nothing.
const LEAST: f32 = 1e-30;

/// A power of two, and its inverse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FixedStep {
    pub step: f32,
    pub inverse: f32,
}

impl FixedStep {
    /// For numbers up to `largest`. Where one of them was no number, none is a number.
    #[inline(always)]
    pub fn of(largest: f32) -> Self {
        if !largest.is_finite() {
            return FixedStep { step: f32::NAN, inverse: 0.0 };
        }
        if largest < LEAST {
            return FixedStep { step: 0.0, inverse: 0.0 };
        }
        // Of the next power of two.
        let exponent = (largest.to_bits() >> FRACTION_BITS).cast_signed() - EXPONENT_BIAS + 1;
        FixedStep { step: power_of_two(exponent - BITS), inverse: power_of_two(BITS - exponent) }
    }

    pub fn quantise(self, number: f32) -> i16 {
        (number * self.inverse).round_ties_even().clamp(-MOST, MOST) as i16
    }
}

#[inline(always)]
fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits((exponent + EXPONENT_BIAS).cast_unsigned() << FRACTION_BITS)
}
