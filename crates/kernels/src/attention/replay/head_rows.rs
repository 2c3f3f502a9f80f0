//! The rows of one head of one sequence's chunk.

use terrace_device::{SharedRows, View};

use super::args::ChunkAt;

#[derive(Clone, Copy)]
pub(super) struct HeadRows {
    pub at: ChunkAt,
    pub seq: usize,
    pub head: usize,
    /// The chunk's token that is row 0.
    pub first: usize,
}

impl HeadRows {
    #[inline(always)]
    pub(super) fn read<'a>(&self, view: View<'a>, token: usize) -> &'a [f32] {
        &view.row(self.at.row(self.seq, self.first + token))[self.at.columns(self.head)]
    }

    /// The row of its slots.
    pub(super) fn slot_row(&self) -> usize {
        self.seq * self.at.kv_heads + self.head / self.at.group_heads()
    }

    /// # Safety
    /// Nobody else holds the row's part of this head.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn write<'a>(
        &self,
        rows: &'a SharedRows<'_, f32>,
        token: usize,
    ) -> &'a mut [f32] {
        let row = self.at.row(self.seq, self.first + token);
        // SAFETY: the caller's contract.
        unsafe { rows.part_mut(row, self.at.columns(self.head)) }
    }

    /// The number of this head in rows of one number for each head.
    #[inline(always)]
    pub(super) fn number(&self, view: View<'_>, token: usize) -> f32 {
        view.row::<f32>(self.at.row(self.seq, self.first + token))[self.head]
    }
}

/// The keys or values of a head's filled slots, dense.
pub(super) fn of_slots(view: View<'_>, row: usize, filled: usize) -> &[f32] {
    let [_, _, dim] = view.dims();
    &view.row::<f32>(row)[..filled * dim]
}
