//! A weight matrix: rows of outputs by columns of inputs, in any [`WeightFormat`].
//!
//! The bytes stay where they are, usually in the mapped model file; kernels unpack what they need
//! into cache. A part of a matrix (the queries of a fused projection, say) shares its bytes.

use std::ops::Range;
use std::sync::Arc;

use terrace_device::Buffer;

use crate::weight_format::WeightFormat;

#[derive(Clone)]
pub struct Matrix {
    format: WeightFormat,
    rows: usize,
    columns: usize,
    row_bytes: usize,
    buffer: Arc<Buffer>,
    offset: usize,
}

impl Matrix {
    /// `buffer` must hold exactly `rows` rows of `columns` weights.
    pub fn new(format: WeightFormat, rows: usize, columns: usize, buffer: Arc<Buffer>) -> Self {
        let row_bytes = format
            .row_bytes(columns)
            .unwrap_or_else(|| panic!("{columns} columns do not fill {} blocks", format.name()));
        assert_eq!(buffer.len(), rows * row_bytes, "bytes of a {rows}x{columns} matrix");
        Matrix { format, rows, columns, row_bytes, buffer, offset: 0 }
    }

    /// Output rows `range`, sharing the bytes.
    pub fn rows_part(&self, range: Range<usize>) -> Matrix {
        assert!(range.start <= range.end && range.end <= self.rows, "rows outside the matrix");
        Matrix {
            rows: range.len(),
            offset: self.offset + range.start * self.row_bytes,
            buffer: Arc::clone(&self.buffer),
            ..*self
        }
    }

    pub fn format(&self) -> WeightFormat {
        self.format
    }

    /// Outputs of the product.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Inputs of the product.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes of row `row`.
    pub fn row(&self, row: usize) -> &[u8] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let start = self.offset + row * self.row_bytes;
        &self.buffer.bytes()[start..start + self.row_bytes]
    }

    /// Bytes of all rows.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.bytes()[self.offset..self.offset + self.rows * self.row_bytes]
    }
}
