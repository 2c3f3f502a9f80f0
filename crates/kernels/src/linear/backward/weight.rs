//! `d_weight += d_out^T * x`: a task is a block of the weight, which meets all tokens.

use std::ops::Range;

use terrace_device::{SharedRows, View, ViewMut};

use super::input::BLOCK_TOKENS;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::cpu::lanes::{Kernel, Lanes};
use crate::linear::accumulate::{accumulate, accumulate_plainly};

/// Of the weight in a task: it stays in the first-level cache, and the few rows of a branch keep
/// all threads busy.
const BLOCK_ROWS: usize = 16;
const BLOCK_COLUMNS: usize = 256;

pub(crate) fn weight_gradient(
    ctx: &CpuCtx,
    d_out: View<'_>,
    x: View<'_>,
    factor: f32,
    mut d_weight: ViewMut<'_>,
) {
    let [tokens, columns] = x.dims();
    let [rows, weight_columns] = d_weight.dims();
    assert_eq!(weight_columns, columns, "columns of the weight of weight_gradient");
    assert_eq!(d_out.dims(), [tokens, rows], "d_out of weight_gradient");
    let d_weight = SharedRows::<f32>::new(&mut d_weight);
    let row_blocks = rows.div_ceil(BLOCK_ROWS);
    ctx.pool.run(row_blocks * columns.div_ceil(BLOCK_COLUMNS), &|_, task| {
        let (row, column) = (task % row_blocks * BLOCK_ROWS, task / row_blocks * BLOCK_COLUMNS);
        let rows = row..rows.min(row + BLOCK_ROWS);
        let columns = column..columns.min(column + BLOCK_COLUMNS);
        ctx.simd.run(Block { d_out, x, factor, rows, columns, d_weight: &d_weight });
    });
}

struct Block<'a> {
    d_out: View<'a>,
    x: View<'a>,
    factor: f32,
    rows: Range<usize>,
    columns: Range<usize>,
    d_weight: &'a SharedRows<'a, f32>,
}

impl Block<'_> {
    /// Tokens that stay in cache while all rows of the block meet them.
    fn token_blocks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let [tokens, _] = self.x.dims();
        let starts = (0..tokens).step_by(BLOCK_TOKENS);
        starts.map(move |start| start..tokens.min(start + BLOCK_TOKENS))
    }

    #[inline(always)]
    fn scaled(&self, token: usize, row: usize) -> f32 {
        self.factor * self.d_out.row::<f32>(token)[self.rows.start + row]
    }

    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    fn d_weight(&self, row: usize) -> &mut [f32] {
        // SAFETY: the block is this task's alone, and each of its rows is asked for once at a time.
        unsafe { self.d_weight.part_mut(self.rows.start + row, self.columns.clone()) }
    }

    #[inline(always)]
    fn x(&self, token: usize) -> &[f32] {
        &self.x.row(token)[self.columns.clone()]
    }
}

impl Kernel for Block<'_> {
    fn reference(self) {
        let [tokens, _] = self.x.dims();
        accumulate_plainly(
            self.rows.len(),
            tokens,
            |row, token| self.scaled(token, row),
            |token| self.x(token),
            |row| self.d_weight(row),
        );
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        for tokens in self.token_blocks() {
            accumulate(
                lanes,
                self.rows.len(),
                tokens.len(),
                |row, k| self.scaled(tokens.start + k, row),
                |k| self.x(tokens.start + k),
                |row| self.d_weight(row),
            );
        }
    }
}
