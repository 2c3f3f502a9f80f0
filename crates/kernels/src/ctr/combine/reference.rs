//! One more input into a row, number by number.

use super::Combination;

pub(crate) fn combine(kind: Combination, x: &[f32], out: &mut [f32]) {
    for (out, x) in out.iter_mut().zip(x) {
        match kind {
            Combination::Add => *out += x,
            Combination::Subtract => *out -= x,
            Combination::Multiply => *out *= x,
        }
    }
}
