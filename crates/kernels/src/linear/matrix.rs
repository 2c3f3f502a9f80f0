//! A weight matrix: rows of outputs by columns of inputs, in any [`WeightFormat`].
//!
//! The bytes stay where they are, usually in the mapped model file; kernels unpack what they need
//! into cache.

use std::ops::Range;
use std::sync::Arc;

use terrace_device::Buffer;

use crate::linear::weight_format::WeightFormat;

#[derive(Clone)]
pub struct Matrix {
    format: WeightFormat,
    rows: usize,
    columns: usize,
    row_bytes: usize,
    /// Where the rows begin in the buffer.
    first_byte: usize,
    buffer: Arc<Buffer>,
}

impl Matrix {
    /// `buffer` must hold exactly `rows` rows of `columns` weights.
    pub fn new(format: WeightFormat, rows: usize, columns: usize, buffer: Arc<Buffer>) -> Self {
        let row_bytes = format
            .row_bytes(columns)
            .unwrap_or_else(|| panic!("{columns} columns do not fill {} blocks", format.name()));
        assert_eq!(buffer.len(), rows * row_bytes, "bytes of a {rows}x{columns} matrix");
        Matrix { format, rows, columns, row_bytes, first_byte: 0, buffer }
    }

    /// Some of its rows, of the same bytes.
    pub fn part(&self, rows: Range<usize>) -> Matrix {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "{rows:?} of {}", self.rows);
        let first_byte = self.first_byte + rows.start * self.row_bytes;
        Matrix { rows: rows.len(), first_byte, ..self.clone() }
    }

    /// The numbers of a matrix of f32 that nobody else holds, to be changed.
    pub(crate) fn f32s_mut(&mut self) -> Option<&mut [f32]> {
        if self.format != WeightFormat::F32 || self.first_byte != 0 {
            return None;
        }
        let count = self.rows * self.columns;
        let buffer = Arc::get_mut(&mut self.buffer)?;
        // SAFETY: any four bytes are an f32.
        let (before, numbers, after) = unsafe { buffer.bytes_mut().align_to_mut::<f32>() };
        let is_whole = before.is_empty() && after.is_empty() && numbers.len() == count;
        is_whole.then_some(numbers)
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
        self.rows_bytes(row..row + 1)
    }

    /// Bytes of all rows.
    pub fn bytes(&self) -> &[u8] {
        self.rows_bytes(0..self.rows)
    }

    /// Lets the operating system take back the memory of a mapped file; what is read again is
    /// loaded again.
    pub fn unload(&self) {
        self.buffer.unload();
    }

    /// Bytes of the rows in `range`, which lie one after the other.
    pub fn rows_bytes(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.rows, "{range:?} of {}", self.rows);
        let start = self.first_byte + range.start * self.row_bytes;
        &self.buffer.bytes()[start..start + range.len() * self.row_bytes]
    }

    /// The rows in `range` where they lie, if they are f32 that can be read in place.
    pub(crate) fn rows_in_place(&self, range: Range<usize>) -> Option<&[f32]> {
        if self.format != WeightFormat::F32 || cfg!(target_endian = "big") {
            return None;
        }
        // SAFETY: any four bytes are an f32.
        let (before, weights, after) = unsafe { self.rows_bytes(range).align_to::<f32>() };
        (before.is_empty() && after.is_empty()).then_some(weights)
    }
}
