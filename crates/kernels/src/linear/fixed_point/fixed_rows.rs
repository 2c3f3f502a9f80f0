//! Rows of activations in fixed point: integers, and behind them their steps.

use super::STEP_COLUMNS;
use super::fixed_step::{FixedStep, MOST};
use crate::cpu::lanes::{Lanes, PanelKernel, PanelLanes};

/// How a row of so many columns lies in memory.
#[derive(Clone, Copy)]
pub(super) struct FixedRow {
    columns: usize,
}

/// Integers are written so many at a time.
const WRITTEN: usize = 32;

impl FixedRow {
    pub fn of(columns: usize) -> Self {
        FixedRow { columns }
    }

    /// Blocks of columns with a step each.
    pub fn blocks(self) -> usize {
        self.columns.div_ceil(STEP_COLUMNS)
    }

    /// Of the integers; the others are steps.
    pub fn word_bytes(self) -> usize {
        self.columns.next_multiple_of(WRITTEN) * size_of::<i16>()
    }

    /// Of a whole row. No power of two, for rows of one column would be in the same cache lines.
    pub fn bytes(self) -> usize {
        (self.word_bytes() + self.blocks() * size_of::<f32>()).next_multiple_of(64)
    }
}

/// One row.
pub(super) struct ToFixed<'a> {
    pub x: &'a [f32],
    /// The row's bytes.
    pub out: &'a mut [u8],
}

impl PanelKernel for ToFixed<'_> {
    type Output = ();

    fn reference(self) {
        let (words, steps) = self.out.split_at_mut(FixedRow::of(self.x.len()).word_bytes());
        words.fill(0);
        let blocks = self.x.chunks(STEP_COLUMNS).zip(words.chunks_mut(2 * STEP_COLUMNS));
        for ((x, words), out) in blocks.zip(steps.as_chunks_mut().0) {
            let largest = x.iter().fold(0.0, |most: f32, x| match x.is_finite() {
                true => most.max(x.abs()),
                false => f32::INFINITY,
            });
            let step = FixedStep::of(largest);
            for (x, word) in x.iter().zip(words.as_chunks_mut().0) {
                *word = step.quantise(*x).to_ne_bytes();
            }
            *out = step.step.to_ne_bytes();
        }
    }

    #[inline(always)]
    fn simd<S: PanelLanes>(self, lanes: S) {
        let (words, steps) = self.out.split_at_mut(FixedRow::of(self.x.len()).word_bytes());
        let blocks = self.x.chunks(STEP_COLUMNS).zip(words.chunks_mut(2 * STEP_COLUMNS));
        for ((x, words), out) in blocks.zip(steps.as_chunks_mut().0) {
            let step = FixedStep::of(largest(lanes, x));
            quantise(lanes, x, step.inverse, words);
            *out = step.step.to_ne_bytes();
        }
    }
}

/// The largest magnitude; no number where one of them is none.
#[inline(always)]
fn largest<S: PanelLanes>(lanes: S, x: &[f32]) -> f32 {
    let base = lanes.floats();
    let zero = base.splat(0.0);
    let (mut most, mut zeros) = (zero, zero);
    for x in x.chunks(<S::Floats as Lanes>::COUNT) {
        let x = base.read(x);
        most = base.max(most, base.max(x, base.sub(zero, x)));
        // Stays 0 for numbers, where the larger of two would forget what is none.
        zeros = base.mul_add(x, zero, zeros);
    }
    base.largest(most) + base.sum(zeros)
}

/// x: as many numbers as half of the bytes in `words`, or fewer
#[inline(always)]
fn quantise<S: PanelLanes>(lanes: S, x: &[f32], inverse: f32, words: &mut [u8]) {
    let (base, count) = (lanes.floats(), <S::Floats as Lanes>::COUNT);
    let (inverse, most, least) = (base.splat(inverse), base.splat(MOST), base.splat(-MOST));
    for (i, out) in words.chunks_exact_mut(4 * count).enumerate() {
        let x = &x[x.len().min(2 * count * i)..];
        let (first, second) = x.split_at(x.len().min(count));
        let first = base.mul(base.read(first), inverse);
        let second = base.mul(base.read(&second[..second.len().min(count)]), inverse);
        let first = base.max(least, base.min(most, first));
        let second = base.max(least, base.min(most, second));
        // SAFETY: so many integers of two bytes are borrowed.
        unsafe { lanes.store_ints(lanes.narrow_int16(first, second), out.as_mut_ptr()) };
    }
}
