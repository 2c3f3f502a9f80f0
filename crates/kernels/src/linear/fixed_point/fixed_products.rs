//! Some rows with a few panels of weights.
//!
//! A lane is an output. Each block of columns is multiplied and added exactly, then scaled and
//! added to the output in the blocks' order: neither the level nor the rows beside it change a bit
//! of it.

use std::ops::Range;

use super::STEP_COLUMNS;
use super::fixed_matrix::{FixedMatrix, PAIR_BYTES};
use super::fixed_rows::FixedRow;
use crate::cpu::lanes::{Lanes, PanelKernel, PanelLanes};
use crate::tiles::PANEL_ROWS;

/// Panels that are multiplied together at most.
pub(super) const PANELS_MOST: usize = 3;
/// Rows that are multiplied together: with three vectors of weights, as many sums as there are
/// registers for.
pub(super) const TILE_ROWS: usize = 8;
/// Fewer rows than this at the end go one by one.
const PADDED_LEAST: usize = 3;

pub(super) struct FixedProducts<'a> {
    /// `rows` rows, as [`FixedRow`] says.
    pub x: &'a [u8],
    pub rows: usize,
    pub matrix: &'a FixedMatrix,
    /// At most [`PANELS_MOST`].
    pub panels: Range<usize>,
    /// Of the rows, up to a multiple of [`TILE_ROWS`], `[_, panels, PANEL_ROWS]`: becomes the
    /// products.
    pub sums: &'a mut [f32],
}

impl PanelKernel for FixedProducts<'_> {
    type Output = ();

    fn reference(self) {
        let columns = self.matrix.columns();
        let row = FixedRow::of(columns);
        let width = self.panels.len() * PANEL_ROWS;
        for (x, sums) in self.x.chunks_exact(row.bytes()).zip(self.sums.chunks_exact_mut(width)) {
            let (words, steps) = x.split_at(row.word_bytes());
            let x = |column: usize| i16::from_ne_bytes(words.as_chunks().0[column]);
            for (i, sum) in sums.iter_mut().enumerate() {
                let (panel, lane) = (self.panels.start + i / PANEL_ROWS, i % PANEL_ROWS);
                let weights = self.matrix.words(panel);
                let weight = |column: usize| {
                    let at = column / 2 * PAIR_BYTES + (lane * 2 + column % 2) * size_of::<i16>();
                    i16::from_le_bytes([weights[at], weights[at + 1]])
                };
                *sum = 0.0;
                for (block, step) in steps.as_chunks().0.iter().take(row.blocks()).enumerate() {
                    let start = block * STEP_COLUMNS;
                    let range = start..columns.min(start + STEP_COLUMNS);
                    let products = range.map(|it| i32::from(x(it)) * i32::from(weight(it)));
                    let exact: i32 = products.sum();
                    let step_of_weights = self.matrix.steps(panel)[block * PANEL_ROWS + lane];
                    let step = f32::from_ne_bytes(*step) * step_of_weights;
                    *sum = (exact as f32).mul_add(step, *sum);
                }
            }
        }
    }

    #[inline(always)]
    fn simd<S: PanelLanes>(mut self, lanes: S) {
        self.check();
        // Vectors of half a panel have half the registers, too.
        if <S::Floats as Lanes>::COUNT < PANEL_ROWS {
            for panel in 0..self.panels.len() {
                self.multiply::<S, 4, 2>(lanes, panel);
            }
            return;
        }
        match self.panels.len() {
            1 => self.multiply::<S, TILE_ROWS, 1>(lanes, 0),
            2 => self.multiply::<S, TILE_ROWS, 2>(lanes, 0),
            _ => self.multiply::<S, TILE_ROWS, 3>(lanes, 0),
        }
    }
}

impl FixedProducts<'_> {
    fn check(&self) {
        let panels = self.panels.len();
        assert!((1..=PANELS_MOST).contains(&panels), "{panels} panels");
        assert!(self.panels.end <= self.matrix.panels(), "{:?} of a matrix", self.panels);
        let row_bytes = FixedRow::of(self.matrix.columns()).bytes();
        assert_eq!(self.x.len(), self.rows * row_bytes, "rows in fixed point");
        let sums = self.rows.next_multiple_of(TILE_ROWS) * panels * PANEL_ROWS;
        assert!(sums <= self.sums.len(), "{} sums for {} rows", self.sums.len(), self.rows);
    }

    /// All rows with `N` vectors of weights, from a panel on.
    #[inline(always)]
    fn multiply<S: PanelLanes, const M: usize, const N: usize>(&mut self, lanes: S, first: usize) {
        let row = FixedRow::of(self.matrix.columns());
        let pairs = self.matrix.columns().div_ceil(2);
        let count = <S::Floats as Lanes>::COUNT;
        let mut weights = [&[][..]; N];
        let mut steps = [&[][..]; N];
        for n in 0..N {
            let panel = self.panels.start + first + n * count / PANEL_ROWS;
            let lane = n * count % PANEL_ROWS;
            weights[n] = &self.matrix.words(panel)[4 * lane..];
            steps[n] = &self.matrix.steps(panel)[lane..];
        }
        for block in 0..row.blocks() {
            let start = block * STEP_COLUMNS / 2;
            let mut block = Block {
                number: block,
                pairs: start..pairs.min(start + STEP_COLUMNS / 2),
                weights: weights.map(<[u8]>::as_ptr),
                steps: [lanes.floats().splat(0.0); N],
            };
            let range = block.number * PANEL_ROWS..block.number * PANEL_ROWS + count;
            for (to, steps) in block.steps.iter_mut().zip(steps) {
                *to = lanes.floats().read(&steps[range.clone()]);
            }
            let mut at = 0;
            while at < self.rows {
                // SAFETY: `check` has seen to the extents.
                at += unsafe {
                    if self.rows - at < PADDED_LEAST {
                        self.some_rows::<S, 1, N>(lanes, &block, at, first)
                    } else {
                        self.some_rows::<S, M, N>(lanes, &block, at, first)
                    }
                };
            }
        }
    }

    /// `M` rows from `at` on, of which the last may be there several times; returns `M`.
    ///
    /// # Safety
    /// What [`check`](Self::check) says holds, and `N` vectors are there from panel `first` on.
    #[inline(always)]
    unsafe fn some_rows<S: PanelLanes, const M: usize, const N: usize>(
        &mut self,
        lanes: S,
        block: &Block<S, N>,
        at: usize,
        first: usize,
    ) -> usize {
        let (base, count) = (lanes.floats(), <S::Floats as Lanes>::COUNT);
        let row = FixedRow::of(self.matrix.columns());
        let width = self.panels.len() * PANEL_ROWS;
        let mut x = [self.x.as_ptr(); M];
        for (m, x) in x.iter_mut().enumerate() {
            *x = x.wrapping_add((at + m).min(self.rows - 1) * row.bytes());
        }
        let pairs = block.pairs.clone();
        // SAFETY: the caller's contract.
        let exact = unsafe { multiply_block::<S, M, N>(lanes, x, block.weights, pairs) };
        for (m, exact) in exact.iter().enumerate() {
            let step = x[m].wrapping_add(row.word_bytes() + size_of::<f32>() * block.number);
            // SAFETY: a row's steps lie behind its integers.
            let step = base.splat(unsafe { step.cast::<f32>().read() });
            let sums = &mut self.sums[(at + m) * width + first * PANEL_ROWS..][..N * count];
            for (n, exact) in exact.iter().enumerate() {
                let sums = &mut sums[n * count..(n + 1) * count];
                let before = if block.number == 0 { base.splat(0.0) } else { base.read(sums) };
                let step = base.mul(step, block.steps[n]);
                base.write(base.mul_add(lanes.to_floats(*exact), step, before), sums);
            }
        }
        M
    }
}

/// Columns with one step, of `N` vectors of weights.
struct Block<S: PanelLanes, const N: usize> {
    number: usize,
    /// Of columns.
    pairs: Range<usize>,
    /// From the first column of all on.
    weights: [*const u8; N],
    steps: [<S::Floats as Lanes>::Vector; N],
}

/// # Safety
/// All rows and panels have the pairs.
#[inline(always)]
unsafe fn multiply_block<S: PanelLanes, const M: usize, const N: usize>(
    lanes: S,
    x: [*const u8; M],
    weights: [*const u8; N],
    pairs: Range<usize>,
) -> [[S::Ints; N]; M] {
    let mut sums = [[lanes.splat_ints(0); N]; M];
    for pair in pairs {
        let mut vectors = [lanes.splat_ints(0); N];
        for n in 0..N {
            // SAFETY: the caller's contract.
            vectors[n] = unsafe { lanes.load_ints(weights[n].wrapping_add(pair * PAIR_BYTES)) };
        }
        for m in 0..M {
            // SAFETY: the caller's contract; rows are aligned.
            let both = unsafe { x[m].cast::<i32>().wrapping_add(pair).read() };
            let both = lanes.splat_ints(both);
            for n in 0..N {
                sums[m][n] = lanes.dot_int16(vectors[n], both, sums[m][n]);
            }
        }
    }
    sums
}
