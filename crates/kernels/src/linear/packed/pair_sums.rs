//! The sums of a pair on their way to outputs.

use crate::tiles::PANEL_ROWS;

/// Rows whose sums a pair holds.
pub(crate) const SUM_ROWS: usize = 32;

/// The products of up to [`SUM_ROWS`] rows with two panels.
#[repr(C, align(64))]
pub(crate) struct PairSums {
    pub(super) rows: [[f32; 2 * PANEL_ROWS]; SUM_ROWS],
}

impl PairSums {
    /// A row's products with both panels.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> &[f32; 2 * PANEL_ROWS] {
        &self.rows[row]
    }

    #[inline(always)]
    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [f32; 2 * PANEL_ROWS] {
        &mut self.rows[row]
    }

    #[inline(always)]
    pub(crate) fn get(&self, row: usize, side: usize) -> &[f32; PANEL_ROWS] {
        &self.rows[row].as_chunks().0[side]
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, row: usize, side: usize) -> &mut [f32; PANEL_ROWS] {
        &mut self.rows[row].as_chunks_mut().0[side]
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, row: usize, side: usize, products: &[f32; PANEL_ROWS]) {
        *self.get_mut(row, side) = *products;
    }
}
