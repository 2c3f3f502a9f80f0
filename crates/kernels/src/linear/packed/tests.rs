//! Packing loses nothing.

use terrace_device::WorkerPool;

use super::packed_matrix::PackedMatrix;
use super::panel_format::{ForPanelFormat, PanelFormat, for_panel_format};
use super::row_block::RowBlock;
use crate::conformance::matrix;
use crate::linear::unpack::unpack_row;
use crate::linear::weight_format::WeightFormat;
use crate::random::SplitMix;
use crate::tiles::{BLOCK_COLUMNS, PANEL_ROWS};

struct Unpacked<'a> {
    panels: &'a PackedMatrix,
    row: usize,
}

impl ForPanelFormat for Unpacked<'_> {
    type Output = Vec<f32>;

    fn run<F: PanelFormat>(self) -> Vec<f32> {
        let panel = self.panels.panel(self.row / PANEL_ROWS);
        let blocks = 0..self.panels.columns() / BLOCK_COLUMNS;
        let lane = self.row % PANEL_ROWS;
        blocks.flat_map(|block| RowBlock::unpack::<F>(panel, block, lane).weights::<F>()).collect()
    }
}

#[test]
fn packed_weights_are_those_of_the_file() {
    let pool = WorkerPool::new(2).unwrap();
    let mut random = SplitMix::new(7);
    for format in WeightFormat::ALL {
        let (rows, columns) = (37, 512);
        let matrix = matrix(&mut random, format, rows, columns);
        let panels = PackedMatrix::pack(&matrix, &pool).unwrap();
        for row in 0..rows {
            let Some(got) = for_panel_format(format, Unpacked { panels: &panels, row }) else {
                continue;
            };
            let mut want = vec![f32::NAN; columns];
            unpack_row(format, matrix.row(row), &mut want);
            assert!(got == want, "row {row} of {}", format.name());
        }
    }
}
