//! A weight matrix in a GPU's memory.

use std::sync::{Arc, OnceLock};

use half::{bf16, f16};
use terrace_device::cuda::{CudaDevice, TensorMap};
use terrace_device::{Buffer, DType, Device, SharedRows, View, ViewMut, WorkerPool};

use super::matrix_kind::{MatrixKind, PANEL_ROWS, STAGE_CHUNKS, TILE_ROWS};
use super::packed_matrix::{FormatRow, pack};
use crate::error::Error;
use crate::linear::matrix::Matrix;
use crate::linear::unpack::reference::unpack;
use crate::linear::weight_format::WeightFormat;
use crate::random::SplitMix;
use crate::random::fill_random::cuda::FillRandomKernels;

/// Panels of a matrix in memory: where the first begins, and how many bytes each has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Panels {
    pub address: u64,
    pub panel_bytes: usize,
    pub panels: usize,
}

pub(crate) struct DeviceMatrix {
    kind: MatrixKind,
    rows: usize,
    columns: usize,
    buffer: Buffer,
    /// What a step multiplies with after this one.
    next: OnceLock<Panels>,
    /// Of dense halves on GPUs with a copy engine: what `panels.cu` and `tiles.cu` bring at once.
    panel_boxes: TensorMap,
    tile_boxes: TensorMap,
}

/// A matrix of random numbers to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RandomMatrix {
    pub format: WeightFormat,
    pub kind: MatrixKind,
    pub rows: usize,
    pub columns: usize,
    pub seed: u64,
}

/// After so many the rows of a packed random matrix repeat; whole panels.
const RANDOM_ROWS: usize = 512;
/// Host memory for rows on their way to the device.
const SLAB_BYTES: usize = 64 << 20;
/// Gate and up rows take turns in runs of so many when they are interleaved.
pub(crate) const RUN_ROWS: usize = 8;

impl DeviceMatrix {
    /// Brings matrices, stacked row by row, to the device. `interleaved` makes the rows of two take
    /// turns, eight of the first, eight of the second.
    pub(crate) fn upload(
        device: &Arc<CudaDevice>,
        workers: &WorkerPool,
        kind: MatrixKind,
        parts: &[&Matrix],
        interleaved: bool,
    ) -> Result<Self, Error> {
        let rows = parts.iter().map(|part| part.rows()).sum();
        let mut matrix = DeviceMatrix::new(device, kind, rows, parts[0].columns())?;
        matrix.write(device, workers, parts, interleaved)?;
        Ok(matrix)
    }

    /// As [`upload`](Self::upload), in the place of what was there.
    pub(crate) fn write(
        &mut self,
        device: &Arc<CudaDevice>,
        workers: &WorkerPool,
        parts: &[&Matrix],
        interleaved: bool,
    ) -> Result<(), Error> {
        let DeviceMatrix { kind, rows, columns, .. } = *self;
        let row = |index| find_row(parts, interleaved, index);
        // Whole panels, so that a slab is a run of the matrix's bytes in every kind.
        let row_bytes = kind.bytes(PANEL_ROWS, columns) / PANEL_ROWS;
        let slab_rows = (SLAB_BYTES / row_bytes.max(1) / PANEL_ROWS).max(1) * PANEL_ROWS;
        let mut slab = vec![0; kind.bytes(slab_rows.min(rows), columns)];
        for first in (0..rows).step_by(slab_rows) {
            let count = slab_rows.min(rows - first);
            let slab = &mut slab[..kind.bytes(count, columns)];
            put_rows(kind, count, columns, |i| row(first + i), workers, slab);
            let at = kind.bytes(first, columns);
            let all = self.bytes();
            let place = self.buffer.view_mut(DType::U8, [all]).rows(at..at + slab.len());
            device.write(&place, slab)?;
        }
        Ok(())
    }

    /// Numbers that mean nothing. Packed ones repeat after some rows, which no speed depends on.
    pub(crate) fn random(
        device: &Arc<CudaDevice>,
        workers: &WorkerPool,
        fill: &FillRandomKernels,
        random: RandomMatrix,
    ) -> Result<Self, Error> {
        let RandomMatrix { format, kind, rows, columns, seed } = random;
        let mut matrix = DeviceMatrix::new(device, kind, rows, columns)?;
        let MatrixKind::Packed(packing) = kind else {
            let factor = 1.0 / (columns as f32).sqrt();
            let MatrixKind::Dense(dtype) = kind else { unreachable!("not packed") };
            fill.numbers(matrix.buffer.view_mut(dtype, [rows, columns]), seed, factor);
            return Ok(matrix);
        };
        let some = rows.min(RANDOM_ROWS);
        let numbers = SplitMix::new(seed).weights(format, some * columns);
        let row_bytes = numbers.len() / some;
        let row = |i: usize| FormatRow { format, bytes: &numbers[i * row_bytes..][..row_bytes] };
        let mut pattern = vec![0; kind.bytes(some, columns)];
        pack(packing, some, columns, row, workers, &mut pattern);
        let all = matrix.bytes();
        for at in (0..all).step_by(pattern.len()) {
            let end = all.min(at + pattern.len());
            let place = matrix.buffer.view_mut(DType::U8, [all]).rows(at..end);
            device.write(&place, &pattern[..end - at])?;
        }
        Ok(matrix)
    }

    /// Room for a matrix.
    pub(crate) fn new(
        device: &Arc<CudaDevice>,
        kind: MatrixKind,
        rows: usize,
        columns: usize,
    ) -> Result<Self, Error> {
        // The copy engine reads the last row to the end of a chunk of 64 columns.
        let whole = if kind.is_dense_half() { columns.next_multiple_of(64) } else { columns };
        let bytes = kind.bytes(rows, columns) + (whole - columns) * DType::Bf16.bytes();
        let buffer = Device::Cuda(Arc::clone(device)).take(bytes, "weights")?;
        let has_engine = device.compute_capability() >= (9, 0);
        let (mut panel_boxes, mut tile_boxes) = (TensorMap::NONE, TensorMap::NONE);
        // The engine wants rows of whole 16 bytes.
        if kind.is_dense_half() && columns.is_multiple_of(8) && has_engine {
            // The engine moves bits, of f16 as of bf16.
            let view = buffer.view(DType::Bf16, [rows, columns]);
            panel_boxes = TensorMap::boxes(view, PANEL_ROWS as u32, STAGE_CHUNKS)?;
            tile_boxes = TensorMap::boxes(view, TILE_ROWS as u32, 1)?;
        }
        Ok(DeviceMatrix {
            kind,
            rows,
            columns,
            buffer,
            next: OnceLock::new(),
            panel_boxes,
            tile_boxes,
        })
    }

    pub(crate) fn kind(&self) -> MatrixKind {
        self.kind
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn bytes(&self) -> usize {
        self.kind.bytes(self.rows, self.columns)
    }

    /// Says which matrix a step multiplies with next, so that its first bytes can be fetched early.
    pub(crate) fn link(&self, next: &DeviceMatrix) {
        // Dense weights keep the memory busy to the end: there is nothing to gain.
        if matches!(next.kind, MatrixKind::Dense(_)) {
            return;
        }
        let panels = Panels {
            address: next.packed().device_address(),
            panel_bytes: next.kind.bytes(PANEL_ROWS, next.columns),
            panels: next.rows / PANEL_ROWS,
        };
        self.next.set(panels).expect("a matrix is linked once");
    }

    /// No panels if none was said.
    pub(crate) fn next(&self) -> Panels {
        self.next.get().copied().unwrap_or_default()
    }

    /// Of a dense matrix: `[rows, columns]`.
    pub(crate) fn dense(&self) -> View<'_> {
        let MatrixKind::Dense(dtype) = self.kind else { panic!("a packed matrix has no rows") };
        self.buffer.view(dtype, [self.rows, self.columns])
    }

    /// All bytes, in whatever order the kind has.
    pub(crate) fn packed(&self) -> View<'_> {
        self.buffer.view(DType::U8, [self.bytes()])
    }

    /// As [`packed`](Self::packed), to be written.
    pub(crate) fn bytes_mut(&mut self) -> ViewMut<'_> {
        let bytes = self.bytes();
        self.buffer.view_mut(DType::U8, [bytes])
    }

    /// For the copy engine, if it is dense and there is one: a panel's rows, eight chunks.
    pub(crate) fn panel_boxes(&self) -> TensorMap {
        self.panel_boxes
    }

    /// As `panel_boxes`: a tile's rows, one chunk.
    pub(crate) fn tile_boxes(&self) -> TensorMap {
        self.tile_boxes
    }
}

/// A matrix as its kind has it. out: as many bytes
pub(crate) fn fill_matrix(kind: MatrixKind, weight: &Matrix, workers: &WorkerPool, out: &mut [u8]) {
    let row = |index| FormatRow { format: weight.format(), bytes: weight.row(index) };
    put_rows(kind, weight.rows(), weight.columns(), row, workers, out);
}

fn put_rows<'a>(
    kind: MatrixKind,
    rows: usize,
    columns: usize,
    row: impl Fn(usize) -> FormatRow<'a> + Sync,
    workers: &WorkerPool,
    out: &mut [u8],
) {
    match kind {
        MatrixKind::Dense(dtype) => widen(dtype, rows, columns, row, workers, out),
        MatrixKind::Packed(packing) => pack(packing, rows, columns, row, workers, out),
    }
}

fn find_row<'a>(parts: &[&'a Matrix], interleaved: bool, index: usize) -> FormatRow<'a> {
    let (mut part, mut row) = (0, index);
    if interleaved {
        part = index / RUN_ROWS % 2;
        row = index / (2 * RUN_ROWS) * RUN_ROWS + index % RUN_ROWS;
    } else {
        while parts[part].rows() <= row {
            row -= parts[part].rows();
            part += 1;
        }
    }
    FormatRow { format: parts[part].format(), bytes: parts[part].row(row) }
}

/// Rows of any format as numbers.
fn widen<'a>(
    dtype: DType,
    rows: usize,
    columns: usize,
    row: impl Fn(usize) -> FormatRow<'a> + Sync,
    workers: &WorkerPool,
    out: &mut [u8],
) {
    let mut out = ViewMut::of(out, [rows, columns * dtype.bytes()]);
    let out = SharedRows::<u8>::new(&mut out);
    workers.run(rows, &|_, index| {
        let FormatRow { format, bytes } = row(index);
        // SAFETY: each row is one task's.
        let out = unsafe { out.row_mut(index) };
        let is_same = matches!(
            (format, dtype),
            (WeightFormat::Bf16, DType::Bf16)
                | (WeightFormat::F16, DType::F16)
                | (WeightFormat::F32, DType::F32)
        );
        if is_same {
            return out.copy_from_slice(bytes);
        }
        let mut numbers = vec![0.0; columns];
        unpack(format, bytes, &mut numbers);
        match dtype {
            DType::F32 => put(out, numbers.iter().map(|x| x.to_le_bytes())),
            DType::F16 => put(out, numbers.iter().map(|x| f16::from_f32(*x).to_le_bytes())),
            _ => put(out, numbers.iter().map(|x| bf16::from_f32(*x).to_le_bytes())),
        }
    });
}

fn put<const BYTES: usize>(out: &mut [u8], numbers: impl Iterator<Item = [u8; BYTES]>) {
    for (out, number) in out.chunks_exact_mut(BYTES).zip(numbers) {
        out.copy_from_slice(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: WeightFormat, bytes: &[u8], dtype: DType, want: &[u8]) {
        let workers = WorkerPool::new(1).unwrap();
        let mut got = vec![0; want.len()];
        let columns = want.len() / dtype.bytes();
        widen(dtype, 1, columns, |_| FormatRow { format, bytes }, &workers, &mut got);
        assert_eq!(got, want, "{} to {}", format.name(), dtype.name());
    }

    #[test]
    fn dense_weights_of_the_activations_type_keep_their_bits() {
        // Among them a NaN with a payload.
        let bits: Vec<u8> = [0x0001u16, 0x3c01, 0xfbff, 0x7e55].map(u16::to_le_bytes).concat();
        check(WeightFormat::F16, &bits, DType::F16, &bits);
        check(WeightFormat::Bf16, &bits, DType::Bf16, &bits);
    }

    #[test]
    fn weights_become_the_nearest_f16_or_infinite() {
        let numbers = [1.0 + 1.0 / 2048.0, 1.0 + 3.0 / 2048.0, 65_519.0, -65_520.0, 3e-8f32];
        let bytes = numbers.map(f32::to_le_bytes).concat();
        let want = [0x3c00u16, 0x3c02, 0x7bff, 0xfc00, 0x0001].map(u16::to_le_bytes).concat();
        check(WeightFormat::F32, &bytes, DType::F16, &want);
    }
}
