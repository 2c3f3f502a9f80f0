//! Rows of activations as 16-bit integers, for products with quantised weights.
//!
//! Each block of 32 columns has a scale: the largest magnitude becomes 32,767. What is lost is a
//! hundredth of what bf16 loses, and a product with weights is exact until it is scaled.

use super::strip_format::BLOCK_COLUMNS;
use crate::lanes::{Lanes, StripKernel, StripLanes};

/// 32 columns of one row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(32))]
pub(crate) struct WordBlock {
    pub(crate) words: [i16; BLOCK_COLUMNS],
    pub(crate) scale: f32,
    /// Of all words, and of each half of them: their sum, negative.
    pub(crate) minus_sums: [i32; 3],
    /// The sums times the scale.
    pub(crate) scaled_sums: [f32; 3],
    _filled: u32,
}

const MOST: f32 = 32_767.0;

/// One row.
pub(crate) struct ToWords<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) out: &'a mut [WordBlock],
}

impl StripKernel for ToWords<'_> {
    type Output = ();

    fn reference(self) {
        for (x, out) in self.x.chunks(BLOCK_COLUMNS).zip(self.out) {
            let largest = x.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
            out.fill(x, largest);
        }
    }

    #[inline(always)]
    fn simd<S: StripLanes>(self, lanes: S) {
        let base = lanes.floats();
        for (x, out) in self.x.chunks(BLOCK_COLUMNS).zip(self.out) {
            let mut most = base.splat(0.0);
            for x in x.chunks(<S::Floats as Lanes>::COUNT) {
                let x = base.read(x);
                most = base.max(most, base.max(x, base.sub(base.splat(0.0), x)));
            }
            out.fill(x, base.largest(most));
        }
    }
}

impl WordBlock {
    /// The compiler makes vectors of it.
    #[inline(always)]
    fn fill(&mut self, x: &[f32], largest: f32) {
        let inverse = if 0.0 < largest { MOST / largest } else { 0.0 };
        self.words = [0; BLOCK_COLUMNS];
        for (word, x) in self.words.iter_mut().zip(x) {
            *word = (x * inverse).round_ties_even() as i16;
        }
        let half = BLOCK_COLUMNS / 2;
        let sum = |words: &[i16]| words.iter().map(|&word| i32::from(word)).sum::<i32>();
        let halves = [sum(&self.words[..half]), sum(&self.words[half..])];
        let sums = [halves[0] + halves[1], halves[0], halves[1]];
        self.scale = largest / MOST;
        self.minus_sums = sums.map(|sum| -sum);
        self.scaled_sums = sums.map(|sum| sum as f32 * self.scale);
    }
}
