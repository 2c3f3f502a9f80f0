//! What a product of rows with two panels gives is added to rows of outputs.

use crate::cpu::lanes::{Kernel, Lanes};
use crate::linear::packed::PairSums;
use crate::tiles::PANEL_ROWS;

pub(super) struct AddSums<'a, O> {
    pub(super) sums: &'a PairSums,
    pub(super) rows: usize,
    /// The first of the columns that the panels' lanes are.
    pub(super) column: usize,
    /// A row of outputs; those that lie outside are left out.
    pub(super) out: O,
}

impl<'o, O: Fn(usize) -> &'o mut [f32]> AddSums<'_, O> {
    /// The columns of a row.
    #[inline(always)]
    fn part(&self, row: usize) -> &'o mut [f32] {
        let out = (self.out)(row);
        let end = out.len().min(self.column + 2 * PANEL_ROWS);
        &mut out[self.column..end]
    }
}

impl<'o, O: Fn(usize) -> &'o mut [f32]> Kernel for AddSums<'_, O> {
    fn reference(self) {
        for row in 0..self.rows {
            let sums = self.sums.row(row);
            self.part(row).iter_mut().zip(sums).for_each(|(out, sum)| *out += sum);
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        for row in 0..self.rows {
            let sums = self.sums.row(row).chunks_exact(L::COUNT);
            for (out, sums) in self.part(row).chunks_mut(L::COUNT).zip(sums) {
                lanes.write(lanes.add(lanes.read(out), lanes.read(sums)), out);
            }
        }
    }
}
