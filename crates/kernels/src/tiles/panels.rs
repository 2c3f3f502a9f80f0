//! Rows of numbers rounded to bf16 as panels, which are what tiles are multiplied with.
//!
//! A panel has sixteen lanes, which are outputs of the product, and blocks of 32 inputs; inputs lie
//! in pairs. What there is not of either is 0.

use half::bf16;

use super::bf16_tiles::ToTiles;
use super::tile_shape::{BLOCK_COLUMNS, PANEL_ROWS, TILE_NUMBERS, tiles_numbers};
use crate::cpu::lanes::{Lanes, PanelKernel, PanelLanes};

/// Up to sixteen rows become the lanes of a panel, and their columns its inputs.
pub(crate) struct ToLanes<'a, X> {
    pub(crate) rows: usize,
    /// A row's numbers.
    pub(crate) x: X,
    /// Whole blocks.
    pub(crate) out: &'a mut [bf16],
}

impl<'x, X: Fn(usize) -> &'x [f32]> PanelKernel for ToLanes<'_, X> {
    type Output = ();

    fn reference(self) {
        self.out.fill(bf16::ZERO);
        for lane in 0..self.rows {
            for (input, x) in (self.x)(lane).iter().enumerate() {
                self.out[place(input, lane)] = bf16::from_f32(*x);
            }
        }
    }

    #[inline(always)]
    fn simd<S: PanelLanes>(self, lanes: S) {
        let ToLanes { rows, x, out } = self;
        ToTiles { rows, x, out: &mut *out }.simd(lanes);
        // SAFETY: any four bytes are an f32; memory for panels is divided at multiples of four.
        let (before, squares, after) = unsafe { out.align_to_mut() };
        assert!(before.is_empty() && after.is_empty(), "whole blocks of a panel");
        squares.iter_mut().for_each(|square| lanes.transpose(square));
    }
}

/// Rows become inputs of panels, and their columns the lanes of one panel after the other.
pub(crate) struct ToInputs<'a, X> {
    pub(crate) rows: usize,
    /// A row's numbers.
    pub(crate) x: X,
    /// Whole panels, each of whole blocks.
    pub(crate) out: &'a mut [bf16],
}

impl<'x, X: Fn(usize) -> &'x [f32]> PanelKernel for ToInputs<'_, X> {
    type Output = ();

    fn reference(self) {
        let mut panels = InputPanels::new(self.rows, self.out);
        for row in 0..self.rows {
            panels.put_plainly(row, (self.x)(row));
        }
    }

    #[inline(always)]
    fn simd<S: PanelLanes>(self, lanes: S) {
        let ToInputs { rows, x, out } = self;
        let mut panels = InputPanels::new(rows, out);
        for row in (0..rows).step_by(2) {
            let second = if row + 1 < rows { x(row + 1) } else { &[] };
            panels.put_pair(lanes, row, [x(row), second]);
        }
    }
}

/// Panels whose inputs come row by row.
pub(crate) struct InputPanels<'a> {
    panel: usize,
    out: &'a mut [bf16],
}

impl<'a> InputPanels<'a> {
    /// Of so many inputs.
    #[inline(always)]
    pub(crate) fn new(rows: usize, out: &'a mut [bf16]) -> Self {
        let panel = tiles_numbers(rows);
        for out in out.chunks_exact_mut(panel) {
            out[rows / 2 * 2 * PANEL_ROWS..].fill(bf16::ZERO);
        }
        InputPanels { panel, out }
    }

    pub(crate) fn put_plainly(&mut self, row: usize, x: &[f32]) {
        for (n, out) in self.out.chunks_exact_mut(self.panel).enumerate() {
            for lane in 0..PANEL_ROWS {
                let x = x.get(n * PANEL_ROWS + lane).copied().unwrap_or(0.0);
                out[place(row, lane)] = bf16::from_f32(x);
            }
        }
    }

    /// The rows `row`, which is even, and `row + 1`, empty if there is none.
    #[inline(always)]
    pub(crate) fn put_pair<S: PanelLanes>(
        &mut self,
        lanes: S,
        row: usize,
        [first, second]: [&[f32]; 2],
    ) {
        let (base, count) = (lanes.floats(), <S::Floats as Lanes>::COUNT);
        for (n, out) in self.out.chunks_exact_mut(self.panel).enumerate() {
            let out = &mut out[row * PANEL_ROWS..][..2 * PANEL_ROWS];
            for (i, out) in out.chunks_exact_mut(2 * count).enumerate() {
                let part = |row: &[f32]| {
                    let start = row.len().min(n * PANEL_ROWS + i * count);
                    base.read(&row[start..])
                };
                let joined = lanes.join_bf16(part(first), part(second));
                // SAFETY: so many numbers of two bytes are borrowed.
                unsafe { lanes.store_ints(joined, out.as_mut_ptr().cast()) };
            }
        }
    }
}

/// Where in a panel the number of an input for a lane is.
fn place(input: usize, lane: usize) -> usize {
    let (block, column) = (input / BLOCK_COLUMNS, input % BLOCK_COLUMNS);
    block * TILE_NUMBERS + (column / 2 * PANEL_ROWS + lane) * 2 + column % 2
}
