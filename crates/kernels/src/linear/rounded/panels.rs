//! Weights as bf16 in panels, made from rows in any format.

use half::bf16;

use std::ops::Range;

use crate::cpu::lanes::{Lanes, PanelKernel, PanelLanes};
use crate::linear::matrix::Matrix;
use crate::linear::unpack;
use crate::tiles::{InputPanels, ToLanes};

/// A panel of some rows of a weight, which are its outputs, and a run of its columns.
pub(super) struct RowPanel<'a> {
    pub(super) weight: &'a Matrix,
    /// At most sixteen.
    pub(super) rows: Range<usize>,
    /// From a block's first to a block's last, of the format's blocks.
    pub(super) columns: Range<usize>,
    /// Sixteen times the columns.
    pub(super) unpacked: &'a mut [f32],
    /// Whole blocks.
    pub(super) out: &'a mut [bf16],
}

impl RowPanel<'_> {
    /// Unpacks each row.
    #[inline(always)]
    fn unpack(&mut self, unpack: impl Fn(&[u8], &mut [f32])) {
        let bytes = self.weight.format().range_bytes(&self.columns);
        let rows = self.unpacked.chunks_exact_mut(self.columns.len());
        for (row, out) in self.rows.clone().zip(rows) {
            unpack(&self.weight.row(row)[bytes.clone()], out);
        }
    }
}

impl PanelKernel for RowPanel<'_> {
    type Output = ();

    fn reference(mut self) {
        let (format, columns) = (self.weight.format(), self.columns.len());
        self.unpack(|bytes, out| unpack::reference::unpack(format, bytes, out));
        let RowPanel { rows, unpacked, out, .. } = self;
        let x = |row: usize| &unpacked[row * columns..(row + 1) * columns];
        ToLanes { rows: rows.len(), x, out }.reference();
    }

    #[inline(always)]
    fn simd<S: PanelLanes>(mut self, lanes: S) {
        let (format, columns) = (self.weight.format(), self.columns.len());
        self.unpack(|bytes, out| lanes.floats().unpack(format, bytes, out));
        let RowPanel { rows, unpacked, out, .. } = self;
        let x = |row: usize| &unpacked[row * columns..(row + 1) * columns];
        ToLanes { rows: rows.len(), x, out }.simd(lanes);
    }
}

/// Panels of some columns of a weight, which are its outputs, and a run of its rows.
pub(super) struct ColumnPanels<'a> {
    pub(super) weight: &'a Matrix,
    /// From a block's first to a block's last, of the format's blocks.
    pub(super) columns: Range<usize>,
    pub(super) rows: Range<usize>,
    /// Twice the columns.
    pub(super) unpacked: &'a mut [f32],
    /// Whole panels, one after the other.
    pub(super) out: &'a mut [bf16],
}

impl PanelKernel for ColumnPanels<'_> {
    type Output = ();

    fn reference(self) {
        let ColumnPanels { weight, columns, rows, unpacked, out } = self;
        let (format, bytes) = (weight.format(), weight.format().range_bytes(&columns));
        let unpacked = &mut unpacked[..columns.len()];
        let mut panels = InputPanels::new(rows.len(), out);
        for (input, row) in rows.enumerate() {
            unpack::reference::unpack(format, &weight.row(row)[bytes.clone()], unpacked);
            panels.put_plainly(input, unpacked);
        }
    }

    #[inline(always)]
    fn simd<S: PanelLanes>(self, lanes: S) {
        let ColumnPanels { weight, columns, rows, unpacked, out } = self;
        let (format, bytes) = (weight.format(), weight.format().range_bytes(&columns));
        let (first, second) = unpacked.split_at_mut(columns.len());
        let mut panels = InputPanels::new(rows.len(), out);
        for row in rows.clone().step_by(2) {
            lanes.floats().unpack(format, &weight.row(row)[bytes.clone()], first);
            let second = if row + 1 < rows.end {
                lanes.floats().unpack(format, &weight.row(row + 1)[bytes.clone()], second);
                &*second
            } else {
                &[]
            };
            panels.put_pair(lanes, row - rows.start, [first, second]);
        }
    }
}
