//! What becomes of a panel's sums: outputs, with a bias or through a gate.

use terrace_device::SharedRows;

use super::panel::Panel;
use super::strip_format::STRIP_ROWS;
use crate::gate;
use crate::lanes::{Kernel, Lanes};
use crate::ops::Activation;
use crate::row_origins::RowList;

/// Rows whose sums a panel holds.
pub(crate) const PANEL_ROWS: usize = 32;

/// The products of up to [`PANEL_ROWS`] rows with two strips.
#[repr(C, align(64))]
pub(crate) struct PanelSums {
    pub(super) rows: [[f32; 2 * STRIP_ROWS]; PANEL_ROWS],
}

#[derive(Clone, Copy)]
pub(crate) enum Finish {
    /// The parts' products lie side by side.
    SideBySide,
    /// There are two parts: `out = activation(first) * second`.
    Gated(Activation),
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

/// Writes the outputs of some rows.
pub(crate) struct FinishRows<'a> {
    pub(crate) sums: &'a PanelSums,
    pub(crate) panel: Panel<'a>,
    pub(crate) finish: Finish,
    pub(crate) rows: RowList<'a>,
    pub(crate) out: &'a SharedRows<'a, f32>,
}

impl Kernel for FinishRows<'_> {
    fn reference(self) {
        self.run(gate::reference::gate);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        self.run(|gate, up, kind, out| gate::simd::gate(lanes, gate, up, kind, out));
    }
}

impl FinishRows<'_> {
    #[inline(always)]
    fn run(self, gated: impl Fn(&[f32], &[f32], Activation, &mut [f32])) {
        for i in 0..self.rows.len() {
            let row = self.rows.get(i);
            let sides: [&[f32; STRIP_ROWS]; 2] = std::array::from_fn(|side| self.sums.get(i, side));
            match self.finish {
                Finish::Gated(kind) => {
                    let strip = self.panel.first;
                    let columns = strip.out_column..strip.out_column + strip.rows();
                    // SAFETY: these columns are this panel's, and one slice at a time.
                    let out = unsafe { self.out.part_mut(row, columns) };
                    gated(&sides[0][..out.len()], &sides[1][..out.len()], kind, out);
                }
                Finish::SideBySide => {
                    for (side, strip) in self.panel.strips() {
                        let columns = strip.out_column..strip.out_column + strip.rows();
                        // SAFETY: as above.
                        let out = unsafe { self.out.part_mut(row, columns) };
                        write(sides[side], strip.bias(), out);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn write(sums: &[f32; STRIP_ROWS], bias: Option<&[f32]>, out: &mut [f32]) {
    // A length known beforehand spares a call of memcpy.
    match out.first_chunk_mut() {
        Some(out) => *out = *sums,
        None => out.copy_from_slice(&sums[..out.len()]),
    }
    if let Some(bias) = bias {
        out.iter_mut().zip(bias).for_each(|(out, bias)| *out += bias);
    }
}
