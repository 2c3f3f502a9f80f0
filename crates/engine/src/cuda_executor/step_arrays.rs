//! A step's arrays at fixed places in device memory, and how they get there.
//!
//! Decoding steps and steps with longer chunks have homes of their own, so that the many small
//! ones copy little. A recorded graph keeps the addresses of the first.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, PinnedBuffer};
use terrace_device::{Buffer, DType, Device, View, ViewMut};
use terrace_kernels::sample::SampleRow;

use crate::batch::Batch;
use crate::error::Error;

/// Bounds of the largest step.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArraysShape {
    pub tokens: usize,
    pub seqs: usize,
    /// Pages of the longest sequence.
    pub seq_pages: usize,
    /// Tiles into which the chunks of a step are cut at most.
    pub tiles: usize,
}

/// Which array, all of 32-bit numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Array {
    Ids,
    Positions,
    RowSeqs,
    CommitSlots,
    Wanted,
    LiveStarts,
    PastTokens,
    Tiles,
    SampleRows,
}

const ARRAYS: [Array; 9] = [
    Array::Ids,
    Array::Positions,
    Array::RowSeqs,
    Array::CommitSlots,
    Array::Wanted,
    Array::LiveStarts,
    Array::PastTokens,
    Array::Tiles,
    Array::SampleRows,
];

/// Where each array lies in one block of memory, the same on both sides.
#[derive(Clone, Copy)]
struct Places {
    /// Offset in bytes and extent in numbers.
    fields: [(usize, usize); ARRAYS.len()],
    bytes: usize,
}

impl Places {
    fn new(shape: ArraysShape) -> Self {
        let mut bytes = 0;
        let fields = ARRAYS.map(|array| {
            let count = match array {
                Array::Ids | Array::Positions | Array::RowSeqs | Array::CommitSlots => shape.tokens,
                Array::Wanted => shape.tokens,
                Array::LiveStarts => shape.seqs + 1,
                Array::PastTokens => shape.seqs,
                Array::Tiles => 2 * shape.tiles,
                Array::SampleRows => shape.seqs * SampleRow::BYTES / 4,
            };
            let start = bytes;
            bytes += (4 * count).next_multiple_of(ALIGNMENT);
            (start, count)
        });
        Places { fields, bytes }
    }

    fn field(&self, array: Array) -> (usize, usize) {
        self.fields[ARRAYS.iter().position(|known| *known == array).expect("all are listed")]
    }
}

/// Of every array: kernels read 16 bytes at a time.
const ALIGNMENT: usize = 128;

/// One home of a step's arrays on the device.
pub(super) struct StepArrays {
    places: Places,
    device: Buffer,
}

impl StepArrays {
    pub fn new(device: &Device, shape: ArraysShape) -> Result<Self, Error> {
        let places = Places::new(shape);
        Ok(StepArrays { places, device: device.take(places.bytes, "arrays of a step")? })
    }

    pub fn bytes(&self) -> usize {
        self.places.bytes
    }

    /// u8 `[rows, SampleRow::BYTES]`: what is to be sampled.
    pub fn sampling(&self, rows: usize) -> View<'_> {
        let (start, capacity) = self.places.field(Array::SampleRows);
        assert!(rows * SampleRow::BYTES <= 4 * capacity, "{rows} rows of sampling");
        let whole = self.device.view(DType::U8, [self.places.bytes]);
        whole.rows(start..start + rows * SampleRow::BYTES).reshape([rows, SampleRow::BYTES])
    }

    /// i32 `[count]`
    pub fn view(&self, array: Array, count: usize) -> View<'_> {
        let (start, capacity) = self.places.field(array);
        assert!(count <= capacity, "{count} numbers of {array:?}, room for {capacity}");
        let whole = self.device.view(DType::I32, [self.places.bytes / 4]);
        whole.rows(start / 4..start / 4 + count)
    }
}

/// Pinned memory from which one step's arrays are copied.
pub(super) struct Staging {
    arrays: PinnedBuffer,
    tables: PinnedBuffer,
}

impl Staging {
    /// Large enough for both homes.
    pub fn new(
        device: &Arc<CudaDevice>,
        arrays_bytes: usize,
        shape: ArraysShape,
    ) -> Result<Self, Error> {
        Ok(Staging {
            arrays: device.pinned(arrays_bytes)?,
            tables: device.pinned(4 * shape.seqs * shape.seq_pages)?,
        })
    }

    /// Writes one array, the rest of it filled with `padding` up to `padded` numbers.
    pub fn write(
        &mut self,
        home: &StepArrays,
        array: Array,
        numbers: &[i32],
        padded: usize,
        padding: impl Fn(usize) -> i32,
    ) {
        let (start, capacity) = home.places.field(array);
        let count = padded.max(numbers.len());
        assert!(count <= capacity, "{count} numbers of {array:?}, room for {capacity}");
        let bytes = &mut self.arrays.bytes_mut()[start..start + 4 * count];
        let padding = (numbers.len()..count).map(padding);
        let numbers = numbers.iter().copied().chain(padding);
        for (place, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
    }

    /// Writes what the device shall sample.
    pub fn write_sampling(&mut self, home: &StepArrays, rows: &[u8]) {
        let (start, capacity) = home.places.field(Array::SampleRows);
        assert!(rows.len() <= 4 * capacity, "{} bytes of sampling", rows.len());
        self.arrays.bytes_mut()[start..start + rows.len()].copy_from_slice(rows);
    }

    /// Starts the copy of all arrays to `home`.
    pub fn send(&self, home: &mut StepArrays) {
        let words = home.places.bytes / 4;
        self.arrays.copy_to(0, &home.device.view_mut(DType::I32, [words]));
    }

    /// Starts the copy of the batch's block tables.
    pub fn send_tables(&mut self, batch: &Batch, group: usize, to: &ViewMut<'_>) {
        let (tables, width) = batch.block_tables(group);
        let bytes = &mut self.tables.bytes_mut()[..4 * tables.len()];
        for (place, page) in bytes.chunks_exact_mut(4).zip(tables) {
            place.copy_from_slice(&page.to_le_bytes());
        }
        let rows = tables.len().checked_div(width).unwrap_or(0);
        self.tables.copy_rows_to(0, rows, 4 * width, to);
    }
}
