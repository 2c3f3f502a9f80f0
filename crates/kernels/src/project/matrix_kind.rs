//! How a GPU keeps a weight matrix.

use terrace_device::DType;

/// Rows of a strip and columns of a block of a packed matrix, see `packed.cuh`.
pub(crate) const STRIP_ROWS: usize = 16;
pub(crate) const BLOCK_COLUMNS: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MatrixKind {
    /// Row by row, in this type.
    Dense(DType),
    Packed(Packing),
}

/// How a packed weight is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Packing {
    /// Four bits, and for 32 of them a scale and the least weight.
    Q4,
    /// Six bits, and a scale for 16 of them.
    Q6,
    /// Eight bits, and a scale for 32 of them.
    Q8,
}

impl MatrixKind {
    /// As the variants of the kernels are called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            MatrixKind::Dense(dtype) => dtype.name(),
            MatrixKind::Packed(packing) => packing.name(),
        }
    }

    pub(crate) fn bytes(self, rows: usize, columns: usize) -> usize {
        match self {
            MatrixKind::Dense(dtype) => rows * columns * dtype.bytes(),
            MatrixKind::Packed(packing) => packing.matrix_bytes(rows, columns),
        }
    }
}

impl Packing {
    /// As the variants of the kernels are called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Packing::Q4 => "q4",
            Packing::Q6 => "q6",
            Packing::Q8 => "q8",
        }
    }

    /// Bytes of a packed matrix; `columns` is a multiple of 32.
    pub(crate) fn matrix_bytes(self, rows: usize, columns: usize) -> usize {
        assert!(columns.is_multiple_of(BLOCK_COLUMNS), "{columns} columns do not fill blocks");
        rows.div_ceil(STRIP_ROWS) * (columns / BLOCK_COLUMNS) * self.block_bytes()
    }

    const fn block_bytes(self) -> usize {
        match self {
            Packing::Q4 => 320,
            Packing::Q6 => 448,
            Packing::Q8 => 544,
        }
    }
}
