//! Packing loses nothing.

use std::sync::Arc;

use terrace_device::{Buffer, WorkerPool};

use super::row_block::RowBlock;
use super::strip_format::{
    BLOCK_COLUMNS, ForStripFormat, STRIP_ROWS, StripFormat, for_strip_format,
};
use super::strip_matrix::StripMatrix;
use crate::linear::matrix::Matrix;
use crate::linear::unpack::unpack_row;
use crate::linear::weight_format::WeightFormat;
use crate::random::SplitMix;

struct Unpacked<'a> {
    strips: &'a StripMatrix,
    row: usize,
}

impl ForStripFormat for Unpacked<'_> {
    type Output = Vec<f32>;

    fn run<F: StripFormat>(self) -> Vec<f32> {
        let strip = self.strips.strip(self.row / STRIP_ROWS);
        let blocks = 0..self.strips.columns() / BLOCK_COLUMNS;
        let lane = self.row % STRIP_ROWS;
        blocks.flat_map(|block| RowBlock::unpack::<F>(strip, block, lane).weights::<F>()).collect()
    }
}

#[test]
fn packed_weights_are_those_of_the_file() {
    let pool = WorkerPool::new(2).unwrap();
    let mut random = SplitMix::new(7);
    for format in WeightFormat::ALL {
        let (rows, columns) = (37, 512);
        let bytes = random.weights(format, rows * columns);
        let mut buffer = Buffer::zeroed(bytes.len(), "weights").unwrap();
        buffer.bytes_mut().copy_from_slice(&bytes);
        let matrix = Matrix::new(format, rows, columns, Arc::new(buffer));
        let strips = StripMatrix::pack(&matrix, &pool).unwrap();
        for row in 0..rows {
            let Some(got) = for_strip_format(format, Unpacked { strips: &strips, row }) else {
                continue;
            };
            let mut want = vec![f32::NAN; columns];
            unpack_row(format, matrix.row(row), &mut want);
            assert!(got == want, "row {row} of {}", format.name());
        }
    }
}
