//! How a GPU keeps a weight matrix.

use terrace_device::DType;

use crate::linear::weight_format::WeightFormat;

/// Rows of a panel and columns of a block of a packed matrix, see `packed.cuh`.
pub(crate) const PANEL_ROWS: usize = 16;
pub(crate) const BLOCK_COLUMNS: usize = 32;
/// Boxes of 64 columns that `panels.cu` brings in a stage of dense weights.
pub(crate) const STAGE_CHUNKS: u32 = 8;
/// Rows that `tiles.cu` brings at once.
pub(crate) const TILE_ROWS: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MatrixKind {
    /// Row by row, in this type.
    Dense(DType),
    Packed(Packing),
}

/// How a packed weight is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Packing {
    /// Four bits about eight, and a scale for 32 of them.
    S4,
    /// Four bits, and for 32 of them a scale and the least weight.
    Q4,
    /// Six bits, and a scale for 16 of them.
    Q6,
    /// Eight bits, and a scale for 32 of them.
    Q8,
}

impl MatrixKind {
    /// How a format is kept where activations are of type `activation`: integers as they are; all
    /// else, and everything in f32 arithmetic, becomes numbers of that type.
    pub(crate) fn of(format: WeightFormat, columns: usize, activation: DType) -> Self {
        match Packing::of(format) {
            Some(packing) if activation != DType::F32 && columns.is_multiple_of(BLOCK_COLUMNS) => {
                MatrixKind::Packed(packing)
            }
            _ => MatrixKind::Dense(activation),
        }
    }

    /// Whether it has rows that tensor cores multiply as they are.
    pub(crate) fn is_dense_half(self) -> bool {
        matches!(self, MatrixKind::Dense(DType::F16 | DType::Bf16))
    }

    /// As the variants are called of kernels that multiply by activations of such a type.
    pub(crate) fn variant(self, activation: DType) -> String {
        match self {
            MatrixKind::Dense(dtype) => dtype.name().into(),
            MatrixKind::Packed(packing) => packing.variant(activation),
        }
    }

    /// As the variants of the other kernels are called.
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
    /// The packing that keeps a format's integers; `None` for formats that have none.
    pub(crate) fn of(format: WeightFormat) -> Option<Self> {
        match format {
            WeightFormat::Q4_0 => Some(Packing::S4),
            WeightFormat::Q4_1 | WeightFormat::Q4K => Some(Packing::Q4),
            WeightFormat::Q3K | WeightFormat::Q6K => Some(Packing::Q6),
            WeightFormat::Q5_0 | WeightFormat::Q8_0 | WeightFormat::Iq4Nl => Some(Packing::Q8),
            _ => None,
        }
    }

    /// As the variants are called of kernels that make numbers of such a type of it.
    pub(crate) fn variant(self, numbers: DType) -> String {
        format!("{}_{}", self.name(), numbers.name())
    }

    /// As the variants of the other kernels are called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Packing::S4 => "s4",
            Packing::Q4 => "q4",
            Packing::Q6 => "q6",
            Packing::Q8 => "q8",
        }
    }

    /// Bytes of a packed matrix; `columns` is a multiple of 32.
    pub(crate) fn matrix_bytes(self, rows: usize, columns: usize) -> usize {
        assert!(columns.is_multiple_of(BLOCK_COLUMNS), "{columns} columns do not fill blocks");
        rows.div_ceil(PANEL_ROWS) * (columns / BLOCK_COLUMNS) * self.block_bytes()
    }

    pub(crate) const fn block_bytes(self) -> usize {
        match self {
            Packing::S4 => 288,
            Packing::Q4 => 320,
            Packing::Q6 => 448,
            Packing::Q8 => 544,
        }
    }
}
