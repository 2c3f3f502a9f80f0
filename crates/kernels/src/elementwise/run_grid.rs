//! Rows of numbers in runs of eight neighbours, one run a thread: how many blocks that takes.
//!
//! A block has a part of one long row, or several short ones. Rows go along the grid's first
//! extent, which is the one without a low limit.

use crate::cuda::{extent, kernel_params};

kernel_params! {
    /// Twin of `RunGrid` in `run_grid.cuh`.
    pub(crate) struct RunGrid: 12 bytes {
        rows: u32,
        runs: u32,
        block_rows: u32,
    }
}

impl RunGrid {
    pub(crate) const RUN: usize = 8;
    pub(crate) const THREADS: usize = 128;

    /// For rows of `dim` numbers.
    pub(crate) fn new(rows: usize, dim: usize) -> Self {
        Self::with_runs(rows, dim.div_ceil(Self::RUN))
    }

    /// For so many runs of each row.
    pub(crate) fn with_runs(rows: usize, runs: usize) -> Self {
        let block_rows = (Self::THREADS / runs.max(1)).max(1);
        RunGrid { rows: extent(rows), runs: extent(runs), block_rows: extent(block_rows) }
    }

    pub(crate) fn blocks(self) -> [usize; 3] {
        let [rows, runs, block_rows] = [self.rows, self.runs, self.block_rows].map(|n| n as usize);
        [rows.div_ceil(block_rows), runs.div_ceil(Self::THREADS), 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each run of each row, by the arithmetic of `find_run`.
    fn found(grid: RunGrid) -> Vec<(u32, u32)> {
        let [rows, parts, _] = grid.blocks().map(|blocks| blocks as u32);
        let threads = RunGrid::THREADS as u32;
        let blocks = (0..rows).flat_map(|x| (0..parts).map(move |y| (x, y)));
        let places = blocks.flat_map(|(x, y)| (0..threads).map(move |thread| (x, y, thread)));
        let runs = places.filter_map(|(x, y, thread)| {
            let row_of_block = thread / grid.runs;
            let row = x * grid.block_rows + row_of_block;
            let run = thread - row_of_block * grid.runs + y * threads;
            let is_there = row_of_block < grid.block_rows && row < grid.rows && run < grid.runs;
            is_there.then_some((row, run))
        });
        runs.collect()
    }

    #[test]
    fn every_run_is_found_once() {
        for rows in [1, 2, 7, 130] {
            for dim in [1, 8, 9, 64, 100, 1016, 1024, 1025, 3000] {
                let mut runs = found(RunGrid::new(rows, dim));
                runs.sort_unstable();
                let all = (0..rows as u32)
                    .flat_map(|row| (0..dim.div_ceil(8) as u32).map(move |run| (row, run)));
                assert_eq!(runs, all.collect::<Vec<_>>(), "{rows} x {dim}");
            }
        }
    }

    #[test]
    fn nothing_is_launched_for_nothing() {
        for (rows, dim) in [(0, 5), (5, 0), (0, 0)] {
            assert!(RunGrid::new(rows, dim).blocks().contains(&0), "{rows} x {dim}");
        }
    }
}
