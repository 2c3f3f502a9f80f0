//! The sums of a panel on their way to outputs.

use super::strip_format::STRIP_ROWS;

/// Rows whose sums a panel holds.
pub(crate) const PANEL_ROWS: usize = 32;

/// The products of up to [`PANEL_ROWS`] rows with two strips.
#[repr(C, align(64))]
pub(crate) struct PanelSums {
    pub(super) rows: [[f32; 2 * STRIP_ROWS]; PANEL_ROWS],
}

impl PanelSums {
    #[inline(always)]
    pub(crate) fn get(&self, row: usize, side: usize) -> &[f32; STRIP_ROWS] {
        &self.rows[row].as_chunks().0[side]
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, row: usize, side: usize) -> &mut [f32; STRIP_ROWS] {
        &mut self.rows[row].as_chunks_mut().0[side]
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, row: usize, side: usize, products: &[f32; STRIP_ROWS]) {
        *self.get_mut(row, side) = *products;
    }
}
