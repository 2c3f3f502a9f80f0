//! Positions of some slots, 32 at a time.

use std::ops::Range;

use super::OWN_ROWS_MOST;
use crate::tiles::BLOCK_COLUMNS;

/// What is no position, for slots that there are not.
const NONE: f32 = -1.0;

pub(super) struct SlotPositions {
    numbers: [f32; OWN_ROWS_MOST],
    /// The least and the largest of each 32.
    ends: [[f32; 2]; OWN_ROWS_MOST / BLOCK_COLUMNS],
    runs: usize,
}

impl SlotPositions {
    /// Of at most [`OWN_ROWS_MOST`] slots.
    pub(super) fn of(positions: &[i32]) -> Self {
        let mut numbers = [NONE; OWN_ROWS_MOST];
        for (number, position) in numbers.iter_mut().zip(positions) {
            *number = *position as f32;
        }
        let runs = positions.len().div_ceil(BLOCK_COLUMNS);
        let mut ends = [[NONE; 2]; OWN_ROWS_MOST / BLOCK_COLUMNS];
        for (ends, numbers) in ends.iter_mut().zip(numbers.as_chunks::<BLOCK_COLUMNS>().0) {
            let least = numbers.iter().copied().fold(f32::INFINITY, f32::min);
            let largest = numbers.iter().copied().fold(NONE, f32::max);
            *ends = [least, largest];
        }
        SlotPositions { numbers, ends, runs }
    }

    /// The `run`-th 32.
    #[inline(always)]
    pub(super) fn run(&self, run: usize) -> &[f32; BLOCK_COLUMNS] {
        &self.numbers.as_chunks().0[run]
    }

    /// The least and the largest of the `run`-th 32.
    #[inline(always)]
    pub(super) fn ends(&self, run: usize) -> [f32; 2] {
        self.ends[run]
    }

    pub(super) fn runs(&self) -> Range<usize> {
        0..self.runs
    }
}
