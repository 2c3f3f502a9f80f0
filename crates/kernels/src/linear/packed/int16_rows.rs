//! Rows of activations as 16-bit integers, for products with quantised weights.
//!
//! Each block of 32 columns has a scale: the largest magnitude becomes 32,639. What is lost is a
//! hundredth of what bf16 loses, and a product with weights is exact until it is scaled.

use crate::cpu::lanes::{Lanes, PanelKernel, PanelLanes};
use crate::tiles::BLOCK_COLUMNS;

/// 32 columns of one row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(32))]
pub(crate) struct Int16Block {
    pub(crate) words: [i16; BLOCK_COLUMNS],
    pub(crate) scale: f32,
    /// Of all words, and of each half of them: their sum, negative.
    pub(crate) minus_sums: [i32; 3],
    /// The sums times the scale.
    pub(crate) scaled_sums: [f32; 3],
    _filled: u32,
}

/// The largest word that is 256 times a signed byte and another one.
const MOST: f32 = 32_639.0;

/// One row.
pub(crate) struct ToInt16<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) out: &'a mut [Int16Block],
}

impl PanelKernel for ToInt16<'_> {
    type Output = ();

    fn reference(self) {
        for (x, out) in self.x.chunks(BLOCK_COLUMNS).zip(self.out) {
            let largest = x.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
            let inverse = inverse(largest);
            out.words = [0; BLOCK_COLUMNS];
            for (word, x) in out.words.iter_mut().zip(x) {
                *word = (x * inverse).round_ties_even() as i16;
            }
            let (first, second) = out.words.split_at(BLOCK_COLUMNS / 2);
            let [first, second] =
                [first, second].map(|words| words.iter().map(|&word| f32::from(word)).sum());
            out.set_scale(largest, [first, second]);
        }
    }

    #[inline(always)]
    fn simd<S: PanelLanes>(self, lanes: S) {
        let (whole, rest) = self.x.as_chunks();
        for (x, out) in whole.iter().zip(&mut *self.out) {
            *out = Int16Block::of(lanes, x);
        }
        if !rest.is_empty() {
            self.out[whole.len()] = Int16Block::of(lanes, &padded(rest));
        }
    }
}

/// A row's last columns, filled up with zeros.
#[inline(always)]
pub(crate) fn padded(rest: &[f32]) -> [f32; BLOCK_COLUMNS] {
    let mut x = [0.0; BLOCK_COLUMNS];
    x[..rest.len()].copy_from_slice(rest);
    x
}

/// What numbers up to `largest` are multiplied by; next to nothing becomes nothing.
#[inline(always)]
pub(crate) fn inverse(largest: f32) -> f32 {
    if 1e-30 < largest { MOST / largest } else { 0.0 }
}

/// The largest magnitude of a block.
#[inline(always)]
pub(crate) fn largest<S: PanelLanes>(lanes: S, x: &[f32; BLOCK_COLUMNS]) -> f32 {
    let base = lanes.floats();
    let mut most = base.splat(0.0);
    for x in x.chunks_exact(<S::Floats as Lanes>::COUNT) {
        let x = base.read(x);
        most = base.max(most, base.max(x, base.sub(base.splat(0.0), x)));
    }
    base.largest(most)
}

impl Int16Block {
    #[inline(always)]
    pub(crate) fn of<S: PanelLanes>(lanes: S, x: &[f32; BLOCK_COLUMNS]) -> Self {
        let (base, count) = (lanes.floats(), <S::Floats as Lanes>::COUNT);
        let largest = largest(lanes, x);
        let inverse = base.splat(inverse(largest));
        let mut block = Int16Block::default();
        // Of each half of the columns; whole numbers are added without loss.
        let mut sums = [base.splat(0.0); 4];
        for (i, x) in x.chunks_exact(2 * count).enumerate() {
            // No closures: the compiler would not know the level's instructions inside.
            let first = base.round(base.mul(base.read(&x[..count]), inverse));
            let second = base.round(base.mul(base.read(&x[count..]), inverse));
            let words = lanes.narrow_int16(first, second);
            // SAFETY: so many numbers of two bytes are borrowed.
            unsafe { lanes.store_ints(words, block.words[2 * count * i..].as_mut_ptr().cast()) };
            let vectors = BLOCK_COLUMNS / 2 / count;
            let [half, other] = [2 * i / vectors, (2 * i + 1) / vectors];
            sums[half] = base.add(sums[half], first);
            sums[other] = base.add(sums[other], second);
        }
        let [first, second, ..] = base.sums(sums);
        block.set_scale(largest, [first, second]);
        block
    }

    #[inline(always)]
    fn set_scale(&mut self, largest: f32, halves: [f32; 2]) {
        let Scaled { scale, minus_sums, scaled_sums } = Scaled::of(largest, halves);
        (self.scale, self.minus_sums, self.scaled_sums) = (scale, minus_sums, scaled_sums);
    }
}

/// A block's scale, and the sums of its words as products need them.
pub(crate) struct Scaled {
    pub(crate) scale: f32,
    pub(crate) minus_sums: [i32; 3],
    pub(crate) scaled_sums: [f32; 3],
}

impl Scaled {
    /// halves: the sums of the words of both halves
    #[inline(always)]
    pub(crate) fn of(largest: f32, halves: [f32; 2]) -> Self {
        let sums = [halves[0] + halves[1], halves[0], halves[1]];
        let scale = largest / MOST;
        let minus_sums = sums.map(|sum| -(sum as i32));
        Scaled { scale, minus_sums, scaled_sums: sums.map(|sum| sum * scale) }
    }
}
