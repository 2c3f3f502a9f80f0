//! What becomes of a pair's sums: outputs, with a bias or through a gate.

#[cfg(target_arch = "x86_64")]
use std::ops::Range;
use terrace_device::SharedRows;

use super::finish::Finish;
use super::pair_sums::PairSums;
use super::panel_pair::PanelPair;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::ctr::activation::Activate;
use crate::elementwise::gate;
use crate::linear::row_kinds::RowList;
use crate::tiles::PANEL_ROWS;

/// Writes the outputs of some rows.
pub(crate) struct FinishRows<'a> {
    pub(crate) sums: &'a PairSums,
    pub(crate) panel_pair: PanelPair<'a>,
    pub(crate) finish: Finish,
    pub(crate) rows: RowList<'a>,
    pub(crate) out: &'a SharedRows<'a, f32>,
}

impl Kernel for FinishRows<'_> {
    fn reference(self) {
        match self.finish {
            Finish::SideBySide(None) => self.write_side_by_side(|_| {}),
            Finish::SideBySide(Some(kind)) => {
                self.write_side_by_side(|x| Activate { x, kind }.reference());
            }
            Finish::Gated(kind) => {
                self.each_gated(|gate, up, out| gate::reference::gate(gate, up, kind, out));
            }
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        match self.finish {
            Finish::SideBySide(None) => self.write_side_by_side(|_| {}),
            Finish::SideBySide(Some(kind)) => {
                self.write_side_by_side(|x| Activate { x, kind }.simd(lanes));
            }
            Finish::Gated(kind) => {
                self.each_gated(|gate, up, out| gate::simd::gate(lanes, gate, up, kind, out));
            }
        }
    }
}

impl FinishRows<'_> {
    /// `write` is called in one place, so that it is compiled for the level's instructions.
    #[inline(always)]
    fn each_gated(&self, write: impl Fn(&[f32], &[f32], &mut [f32])) {
        let columns = self.panel_pair.out_columns();
        for (i, sums) in self.sums.rows[..self.rows.len()].iter().enumerate() {
            let (gate, up) = sums.split_at(PANEL_ROWS);
            // SAFETY: these columns are this pair's, and one slice at a time.
            let out = unsafe { self.out.part_mut(self.rows.get(i), columns.clone()) };
            write(&gate[..out.len()], &up[..out.len()], out);
        }
    }

    #[inline(always)]
    fn write_side_by_side(&self, activate: impl Fn(&mut [f32])) {
        let (columns, bias) = (self.panel_pair.out_columns(), self.panel_pair.bias());
        for (i, sums) in self.sums.rows[..self.rows.len()].iter().enumerate() {
            // SAFETY: these columns are this pair's, and one slice at a time.
            let out = unsafe { self.out.part_mut(self.rows.get(i), columns.clone()) };
            // A length known beforehand spares a call of memcpy.
            match out.first_chunk_mut() {
                Some(out) => *out = *sums,
                None => out.copy_from_slice(&sums[..out.len()]),
            }
            if let Some(bias) = bias {
                out.iter_mut().zip(bias).for_each(|(out, bias)| *out += bias);
            }
            activate(out);
        }
    }
}

/// Asks for the memory that the outputs of some rows go to: a processor that has it when they come
/// need not wait to write.
#[cfg(target_arch = "x86_64")]
pub(crate) struct AskForOutputs<'a> {
    pub(crate) columns: Range<usize>,
    pub(crate) rows: RowList<'a>,
    pub(crate) out: &'a SharedRows<'a, f32>,
}

#[cfg(target_arch = "x86_64")]
impl Kernel for AskForOutputs<'_> {
    fn reference(self) {}

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        for i in 0..self.rows.len() {
            // SAFETY: these columns are this pair's; they are not read.
            let out = unsafe { self.out.part(self.rows.get(i), self.columns.clone()) };
            for panel in out.chunks(PANEL_ROWS) {
                lanes.prefetch_to_write(panel.as_ptr().cast());
            }
        }
    }
}
