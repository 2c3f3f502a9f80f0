//! A weight matrix in strips of sixteen rows, as the CPU's kernels stream it.
//!
//! Quantised weights stay as they are, bit for bit, in another order ([`StripFormat`]). Others are
//! rounded to bf16, in pairs: a vector holds two columns of sixteen rows, and sixteen of them are
//! a tile of the matrix units. Rows and columns that a strip or block has beyond the matrix are 0.

use half::bf16;
use terrace_device::{Buffer, DType, SharedRows, WorkerPool};

use super::row_block::RowBlock;
use super::strip_format::{
    BLOCK_COLUMNS, ForStripFormat, OPERANDS, STRIP_ROWS, StripFormat, for_strip_format,
};
use crate::error::Error;
use crate::linear::matrix::Matrix;
use crate::linear::unpack;
use crate::linear::weight_format::WeightFormat;

pub(crate) struct StripMatrix {
    kind: StripKind,
    rows: usize,
    columns: usize,
    strip_bytes: usize,
    buffer: Buffer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StripKind {
    Bf16,
    Quantised(WeightFormat),
}

/// Bytes of a block of bf16 weights.
pub(crate) const BF16_BLOCK_BYTES: usize = 2 * STRIP_ROWS * BLOCK_COLUMNS;

impl StripMatrix {
    pub(crate) fn pack(matrix: &Matrix, pool: &WorkerPool) -> Result<Self, Error> {
        let (rows, columns) = (matrix.rows(), matrix.columns());
        let blocks = columns.div_ceil(BLOCK_COLUMNS);
        let format = matrix.format();
        let (kind, strip_bytes) = match for_strip_format(format, StripBytes { blocks }) {
            Some(bytes) => (StripKind::Quantised(format), bytes),
            None => (StripKind::Bf16, blocks * BF16_BLOCK_BYTES),
        };
        let strips = rows.div_ceil(STRIP_ROWS);
        let mut buffer = Buffer::zeroed(strips * strip_bytes, "packed weights")?;
        let mut view = buffer.view_mut(DType::U8, [strips, strip_bytes]);
        let out = SharedRows::<u8>::new(&mut view);
        pool.run(strips, &|_, strip| {
            // SAFETY: each strip is one task's.
            let out = unsafe { out.row_mut(strip) };
            let first = strip * STRIP_ROWS;
            let rows = first..rows.min(first + STRIP_ROWS);
            match kind {
                StripKind::Bf16 => pack_bf16(matrix, rows, out),
                StripKind::Quantised(_) => {
                    for_strip_format(format, PackStrip { matrix, rows, out })
                        .expect("its bytes were counted");
                }
            }
        });
        Ok(StripMatrix { kind, rows, columns, strip_bytes, buffer })
    }

    pub(crate) fn kind(&self) -> StripKind {
        self.kind
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn strips(&self) -> usize {
        self.rows.div_ceil(STRIP_ROWS)
    }

    pub(crate) fn strip(&self, strip: usize) -> &[u8] {
        &self.buffer.bytes()[strip * self.strip_bytes..][..self.strip_bytes]
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buffer.len()
    }
}

struct StripBytes {
    blocks: usize,
}

impl ForStripFormat for StripBytes {
    type Output = usize;
    fn run<F: StripFormat>(self) -> usize {
        F::strip_bytes(self.blocks)
    }
}

struct PackStrip<'a> {
    matrix: &'a Matrix,
    rows: std::ops::Range<usize>,
    out: &'a mut [u8],
}

impl ForStripFormat for PackStrip<'_> {
    type Output = ();
    fn run<F: StripFormat>(self) {
        for (lane, row) in self.rows.enumerate() {
            let bytes = self.matrix.row(row);
            for block in 0..self.matrix.columns() / BLOCK_COLUMNS {
                RowBlock::read(F::FORMAT, bytes, block).pack::<F>(self.out, block, lane);
            }
        }
    }
}

fn pack_bf16(matrix: &Matrix, rows: std::ops::Range<usize>, out: &mut [u8]) {
    let format = matrix.format();
    let weight_bytes = format.block_bytes();
    for (lane, row) in rows.enumerate() {
        let row = matrix.row(row).chunks(weight_bytes * BLOCK_COLUMNS);
        for (bytes, block) in row.zip(out.chunks_exact_mut(BF16_BLOCK_BYTES)) {
            let mut weights = [0.0; BLOCK_COLUMNS];
            let count = bytes.len() / weight_bytes;
            unpack::reference::unpack(format, bytes, &mut weights[..count]);
            for t in 0..OPERANDS {
                let pair = &mut block[4 * (t * STRIP_ROWS + lane)..][..4];
                pair[..2].copy_from_slice(&bf16::from_f32(weights[2 * t]).to_le_bytes());
                pair[2..].copy_from_slice(&bf16::from_f32(weights[2 * t + 1]).to_le_bytes());
            }
        }
    }
}
