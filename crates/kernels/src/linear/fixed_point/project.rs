//! `out = x * weights^T + bias` in fixed point, cut into tasks of some rows and panels.

use std::ops::Range;
use std::sync::PoisonError;

use terrace_device::{DType, SharedRows, View, ViewMut};

use super::fixed_matrix::FixedMatrix;
use super::fixed_products::{FixedProducts, PANELS_MOST, TILE_ROWS};
use super::fixed_rows::{FixedRow, ToFixed};
use crate::cpu::converted_rows::ConvertedRows;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::tiles::PANEL_ROWS;

/// x: f32 `[rows, columns]` · out: f32 `[rows, rows of the matrix]`; rows may be strided
pub(crate) struct FixedProduct<'a> {
    pub(crate) x: View<'a>,
    pub(crate) matrix: &'a FixedMatrix,
    /// Negative results become 0.
    pub(crate) relu: bool,
    pub(crate) out: ViewMut<'a>,
}

/// Rows of a task: of 1,024 columns they stay in the second-level cache, while the weights pass.
const TASK_ROWS: usize = 96;
/// Tasks of a thread at least, so that none waits long for another's last.
const TASKS_LEAST: usize = 12;

pub(crate) fn project(ctx: &CpuCtx, product: FixedProduct<'_>) {
    let FixedProduct { x, matrix, relu, mut out } = product;
    let [rows, columns] = x.dims();
    assert_eq!(matrix.columns(), columns, "columns of weight");
    assert_eq!(out.dims(), [rows, matrix.rows()], "out of project");
    assert!(columns <= CpuCtx::MAX_COLUMNS, "{columns} columns of {}", CpuCtx::MAX_COLUMNS);
    let out = SharedRows::<f32>::new(&mut out);
    let row_bytes = FixedRow::of(columns).bytes();
    // Never poisoned in a way that matters: nobody reads what an earlier product left.
    let mut memory = ctx.converted_rows.lock().unwrap_or_else(PoisonError::into_inner);
    let pass_rows = ConvertedRows::BYTES / row_bytes;
    for start in (0..rows).step_by(pass_rows) {
        let pass = start..rows.min(start + pass_rows);
        let mut words = memory.words.view_mut(DType::U8, [pass.len(), row_bytes]);
        let words = SharedRows::<u8>::new(&mut words);
        ctx.for_rows(pass.len(), columns, &|row| {
            // SAFETY: each row is one task's.
            let out = unsafe { words.row_mut(row) };
            ctx.simd.run_panels(ToFixed { x: x.row(start + row), out });
        });
        let cut = Cut::new(ctx.threads(), pass.len(), matrix.panels());
        ctx.run_with_scratch(cut.tasks(), &|scratch, task| {
            let (rows, panels) = (cut.rows_of(task), cut.panels_of(task));
            let x = &memory.words.bytes()[rows.start * row_bytes..rows.end * row_bytes];
            for first in panels.clone().step_by(PANELS_MOST) {
                let panels = first..panels.end.min(first + PANELS_MOST);
                let (rows, count) = (start + rows.start, rows.len());
                let sums = &mut scratch[..TASK_ROWS * PANELS_MOST * PANEL_ROWS];
                ctx.simd.run_int16(FixedProducts {
                    x,
                    rows: count,
                    matrix,
                    panels: panels.clone(),
                    sums: &mut *sums,
                });
                ctx.simd.run(Finish {
                    sums,
                    matrix,
                    panels,
                    rows: rows..rows + count,
                    relu,
                    out: &out,
                });
            }
        });
    }
}

/// How rows and panels are divided among tasks.
struct Cut {
    rows: usize,
    task_rows: usize,
    panels: usize,
    task_panels: usize,
}

impl Cut {
    fn new(threads: usize, rows: usize, panels: usize) -> Self {
        let chunks = rows.div_ceil(TASK_ROWS).max(1);
        let task_rows = rows.div_ceil(chunks).next_multiple_of(TILE_ROWS);
        let groups = panels.div_ceil(PANELS_MOST);
        let wanted = (TASKS_LEAST * threads).div_ceil(chunks).clamp(1, groups);
        let task_panels = groups.div_ceil(wanted) * PANELS_MOST;
        Cut { rows, task_rows, panels, task_panels }
    }

    fn tasks(&self) -> usize {
        self.rows.div_ceil(self.task_rows) * self.panel_tasks()
    }

    fn panel_tasks(&self) -> usize {
        self.panels.div_ceil(self.task_panels)
    }

    /// Tasks of the same rows follow each other.
    fn rows_of(&self, task: usize) -> Range<usize> {
        let start = task / self.panel_tasks() * self.task_rows;
        start..self.rows.min(start + self.task_rows)
    }

    fn panels_of(&self, task: usize) -> Range<usize> {
        let start = task % self.panel_tasks() * self.task_panels;
        start..self.panels.min(start + self.task_panels)
    }
}

/// Writes the outputs of some rows and panels.
struct Finish<'a> {
    /// `[rows, panels, PANEL_ROWS]`
    sums: &'a [f32],
    matrix: &'a FixedMatrix,
    panels: Range<usize>,
    rows: Range<usize>,
    relu: bool,
    out: &'a SharedRows<'a, f32>,
}

impl Finish<'_> {
    /// Each row's sums, what is added to them, and where they go.
    #[inline(always)]
    fn each_row(&self, mut write: impl FnMut(&[f32], &[f32], &mut [f32])) {
        let width = self.panels.len() * PANEL_ROWS;
        let columns =
            self.panels.start * PANEL_ROWS..self.matrix.rows().min(self.panels.end * PANEL_ROWS);
        let bias = self.matrix.bias(self.panels.start);
        for (row, sums) in self.rows.clone().zip(self.sums.chunks_exact(width)) {
            // SAFETY: these columns of these rows are this task's, and one slice at a time.
            let out = unsafe { self.out.part_mut(row, columns.clone()) };
            write(sums, bias, out);
        }
    }
}

impl Kernel for Finish<'_> {
    fn reference(self) {
        let least = if self.relu { 0.0 } else { f32::NEG_INFINITY };
        self.each_row(|sums, bias, out| {
            for ((sum, bias), out) in sums.iter().zip(bias).zip(out) {
                let number = sum + bias;
                // What is no number stays so.
                *out = if number < least { least } else { number };
            }
        });
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let least = lanes.splat(if self.relu { 0.0 } else { f32::NEG_INFINITY });
        self.each_row(
            #[inline(always)]
            |sums, bias, out| {
                let numbers = sums.chunks(L::COUNT).zip(bias.chunks(L::COUNT));
                for ((sums, bias), out) in numbers.zip(out.chunks_mut(L::COUNT)) {
                    let number = lanes.add(lanes.read(sums), lanes.read(bias));
                    lanes.write(lanes.max(least, number), out);
                }
            },
        );
    }
}
