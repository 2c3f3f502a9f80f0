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
        match self.finish {
            Finish::SideBySide => self.write_side_by_side(),
            Finish::Gated(kind) => {
                self.each_gated(|gate, up, out| gate::reference::gate(gate, up, kind, out));
            }
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        match self.finish {
            Finish::SideBySide => self.write_side_by_side(),
            Finish::Gated(kind) => {
                self.each_gated(|gate, up, out| gate::simd::gate(lanes, gate, up, kind, out));
            }
        }
    }
}

impl FinishRows<'_> {
    #[inline(always)]
    fn each_gated(&self, write: impl Fn(&[f32], &[f32], &mut [f32])) {
        let strip = self.panel.first;
        let columns = strip.out_column..strip.out_column + strip.rows();
        for i in 0..self.rows.len() {
            let [gate, up] = [self.sums.get(i, 0), self.sums.get(i, 1)];
            // SAFETY: these columns are this panel's, and one slice at a time.
            let out = unsafe { self.out.part_mut(self.rows.get(i), columns.clone()) };
            write(&gate[..out.len()], &up[..out.len()], out);
        }
    }

    #[inline(always)]
    fn write_side_by_side(&self) {
        for (side, strip) in self.panel.strips() {
            let columns = strip.out_column..strip.out_column + strip.rows();
            let bias = strip.bias();
            for i in 0..self.rows.len() {
                // SAFETY: these columns are this panel's, and one slice at a time.
                let out = unsafe { self.out.part_mut(self.rows.get(i), columns.clone()) };
                write(self.sums.get(i, side), bias, out);
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
