//! A weight matrix in panels of sixteen rows, as the CPU's kernels stream it.
//!
//! Quantised weights stay as they are, bit for bit, in another order ([`PanelFormat`]). Others are
//! rounded to bf16, in pairs: a vector holds two columns of sixteen rows, and sixteen of them are
//! a tile of the matrix units. Rows and columns that a panel or block has beyond the matrix are 0.

use half::bf16;
use terrace_device::{Buffer, DType, SharedRows, WorkerPool};

use super::panel_format::{ForPanelFormat, OPERANDS, PanelFormat, for_panel_format};
use super::row_block::RowBlock;
use crate::error::Error;
use crate::linear::matrix::Matrix;
use crate::linear::unpack;
use crate::linear::weight_format::WeightFormat;
use crate::tiles::{BLOCK_COLUMNS, PANEL_ROWS};

pub(crate) struct PackedMatrix {
    kind: PackedKind,
    rows: usize,
    columns: usize,
    panel_bytes: usize,
    buffer: Buffer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackedKind {
    Bf16,
    Quantised(WeightFormat),
}

/// Bytes of a block of bf16 weights.
pub(crate) const BF16_BLOCK_BYTES: usize = 2 * PANEL_ROWS * BLOCK_COLUMNS;

impl PackedMatrix {
    pub(crate) fn pack(matrix: &Matrix, pool: &WorkerPool) -> Result<Self, Error> {
        let (rows, columns) = (matrix.rows(), matrix.columns());
        let blocks = columns.div_ceil(BLOCK_COLUMNS);
        let format = matrix.format();
        let (kind, panel_bytes) = match for_panel_format(format, PanelBytes { blocks }) {
            Some(bytes) => (PackedKind::Quantised(format), bytes),
            None => (PackedKind::Bf16, blocks * BF16_BLOCK_BYTES),
        };
        let panels = rows.div_ceil(PANEL_ROWS);
        let mut buffer = Buffer::zeroed(panels * panel_bytes, "packed weights")?;
        let mut view = buffer.view_mut(DType::U8, [panels, panel_bytes]);
        let out = SharedRows::<u8>::new(&mut view);
        pool.run(panels, &|_, panel| {
            // SAFETY: each panel is one task's.
            let out = unsafe { out.row_mut(panel) };
            let first = panel * PANEL_ROWS;
            let rows = first..rows.min(first + PANEL_ROWS);
            match kind {
                PackedKind::Bf16 => pack_bf16(matrix, rows, out),
                PackedKind::Quantised(_) => {
                    for_panel_format(format, PackPanel { matrix, rows, out })
                        .expect("its bytes were counted");
                }
            }
        });
        Ok(PackedMatrix { kind, rows, columns, panel_bytes, buffer })
    }

    pub(crate) fn kind(&self) -> PackedKind {
        self.kind
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn panels(&self) -> usize {
        self.rows.div_ceil(PANEL_ROWS)
    }

    pub(crate) fn panel(&self, panel: usize) -> &[u8] {
        &self.buffer.bytes()[panel * self.panel_bytes..][..self.panel_bytes]
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buffer.len()
    }
}

struct PanelBytes {
    blocks: usize,
}

impl ForPanelFormat for PanelBytes {
    type Output = usize;
    fn run<F: PanelFormat>(self) -> usize {
        F::panel_bytes(self.blocks)
    }
}

struct PackPanel<'a> {
    matrix: &'a Matrix,
    rows: std::ops::Range<usize>,
    out: &'a mut [u8],
}

impl ForPanelFormat for PackPanel<'_> {
    type Output = ();
    fn run<F: PanelFormat>(self) {
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
                let pair = &mut block[4 * (t * PANEL_ROWS + lane)..][..4];
                pair[..2].copy_from_slice(&bf16::from_f32(weights[2 * t]).to_le_bytes());
                pair[2..].copy_from_slice(&bf16::from_f32(weights[2 * t + 1]).to_le_bytes());
            }
        }
    }
}
