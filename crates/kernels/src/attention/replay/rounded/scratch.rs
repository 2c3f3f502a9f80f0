//! A worker's memory, taken piece by piece.

use half::bf16;

use crate::linear::packed::PairSums;

/// Everything that is taken begins at a multiple of 64 bytes.
pub(super) struct Scratch<'a> {
    rest: &'a mut [f32],
}

/// Floats of 64 bytes.
const LINE: usize = 16;

impl<'a> Scratch<'a> {
    pub(super) fn of(memory: &'a mut [f32]) -> Self {
        // SAFETY: any bytes are sums, and any bytes are numbers.
        let rest = unsafe { memory.align_to_mut::<PairSums>().1.align_to_mut().1 };
        Scratch { rest }
    }

    pub(super) fn numbers(&mut self, count: usize) -> &'a mut [f32] {
        let (taken, rest) =
            std::mem::take(&mut self.rest).split_at_mut(count.next_multiple_of(LINE));
        self.rest = rest;
        &mut taken[..count]
    }

    pub(super) fn bf16(&mut self, count: usize) -> &'a mut [bf16] {
        // SAFETY: any two bytes are a bf16.
        unsafe { &mut self.numbers(count.div_ceil(2)).align_to_mut().1[..count] }
    }

    pub(super) fn sums(&mut self, count: usize) -> &'a mut [PairSums] {
        // SAFETY: any bytes are sums.
        unsafe { self.numbers(count * size_of::<PairSums>() / size_of::<f32>()).align_to_mut().1 }
    }

    pub(super) fn one_sums(&mut self) -> &'a mut PairSums {
        &mut self.sums(1)[0]
    }
}
