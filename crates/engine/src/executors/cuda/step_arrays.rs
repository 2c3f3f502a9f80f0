//! A step's arrays in device memory, and how they get there.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{Buffer, DType, Device, View};
use terrace_kernels::sampling::SampleRow;
use terrace_kernels::{HostCopier, MappedBuffer};

use super::row_sampling::RowSampling;
use super::step_form::{Array, ArraySpan, StepForm};
use crate::error::Error;
use crate::executors::batch::{Batch, Segment};

pub(super) struct StepArrays {
    device: Buffer,
}

impl StepArrays {
    pub fn new(device: &Device, bytes: usize) -> Result<Self, Error> {
        Ok(StepArrays { device: device.take(bytes, "arrays of a step")? })
    }

    pub fn bytes(&self) -> usize {
        self.device.len()
    }

    /// u8 `[rows, SampleRow::BYTES]`: what is to be sampled.
    pub fn sampling(&self, place: ArraySpan) -> View<'_> {
        let whole = self.device.view(DType::U8, [self.device.len()]);
        let rows = 4 * place.count / SampleRow::BYTES;
        let bytes = rows * SampleRow::BYTES;
        whole.rows(place.start..place.start + bytes).reshape([rows, SampleRow::BYTES])
    }

    /// i32 `[count]`
    pub fn view(&self, place: ArraySpan) -> View<'_> {
        self.words(DType::I32, place)
    }

    /// f32 `[count]`
    pub fn numbers(&self, place: ArraySpan) -> View<'_> {
        self.words(DType::F32, place)
    }

    fn words(&self, dtype: DType, place: ArraySpan) -> View<'_> {
        let whole = self.device.view(dtype, [self.device.len() / 4]);
        whole.rows(place.start / 4..place.start / 4 + place.count)
    }
}

/// Pinned memory from which one step's arrays are copied.
pub(super) struct Staging {
    memory: MappedBuffer,
}

impl Staging {
    /// Large enough for every step.
    pub fn new(copier: &HostCopier, device: &Arc<CudaDevice>, bytes: usize) -> Result<Self, Error> {
        Ok(Staging { memory: MappedBuffer::new(copier, device, bytes)? })
    }

    /// Writes a step's arrays as `form` lays them out. It may have more rows and sequences than the
    /// batch, where that has one segment of single rows: those are empty, commit nothing, attend to
    /// nothing and sample nothing.
    pub fn fill(&mut self, form: &StepForm, batch: &Batch, sampling: &RowSampling) {
        for (array, place) in form.places() {
            match array {
                Array::Ids => self.write(place, batch.ids(), |_| 0),
                Array::Positions => self.write(place, batch.positions(), |_| 0),
                Array::Wanted => self.write(place, batch.wanted(), |row| row as i32),
                Array::SampleRows => {
                    let bytes = sampling.bytes(form.sampled);
                    let end = place.start + bytes.len();
                    self.memory.bytes_mut()[place.start..end].copy_from_slice(&bytes);
                }
                Array::RowSeqs(segment) => {
                    self.write(place, batch.segments()[segment].row_seqs(), |row| row as i32);
                }
                Array::LiveStarts(segment) => {
                    self.write(place, batch.segments()[segment].live_starts(), |seq| seq as i32);
                }
                Array::Tiles(segment) => {
                    self.write(place, &batch.segments()[segment].tiles(), |_| 0);
                }
                Array::PastTokens(segment) => {
                    self.write(place, batch.segments()[segment].past_tokens(), |_| -1);
                }
                Array::CommitSlots(segment, group) => {
                    self.write(place, batch.segments()[segment].commit_slots(group), |_| -1);
                }
                Array::Tables(segment, group) => {
                    let width = form.segments[segment].groups[group].table_pages;
                    self.write_tables(place, &batch.segments()[segment], group, width);
                }
                Array::InvFreqs(segment) => {
                    self.write_numbers(place, batch.segments()[segment].read_rope()[0]);
                }
                Array::RopeScales(segment) => {
                    self.write_numbers(place, batch.segments()[segment].read_rope()[1]);
                }
                // The first word of a rule is -1 where there is no sequence.
                Array::Rules(segment, group) => {
                    self.write(place, batch.segments()[segment].rules(group), |_| -1);
                }
                Array::RerotatedPositions(segment, group) => {
                    self.write(place, batch.segments()[segment].rerotated_positions(group), |_| 0);
                }
            }
        }
    }

    /// A step of which no row is there, for the first run of its kernels.
    pub fn fill_empty(&mut self, form: &StepForm) {
        for (array, place) in form.places() {
            match array {
                Array::Wanted | Array::RowSeqs(_) | Array::LiveStarts(_) => {
                    self.write(place, &[], |row| row as i32);
                }
                Array::SampleRows => {
                    let empty = SampleRow::SKIP.to_bytes().repeat(form.sampled);
                    let end = place.start + empty.len();
                    self.memory.bytes_mut()[place.start..end].copy_from_slice(&empty);
                }
                Array::PastTokens(_) | Array::CommitSlots(..) | Array::Rules(..) => {
                    self.write(place, &[], |_| -1);
                }
                _ => self.write(place, &[], |_| 0),
            }
        }
    }

    /// Starts the copy of a step's arrays.
    pub fn send(&self, form: &StepForm, to: &mut StepArrays) {
        let words = form.bytes() / 4;
        self.memory.copy_to(&to.device.view_mut(DType::I32, [words]));
    }

    /// Writes one array, the rest of its place filled with `padding`.
    fn write(&mut self, place: ArraySpan, numbers: &[i32], padding: impl Fn(usize) -> i32) {
        assert!(numbers.len() <= place.count, "{} numbers for {place:?}", numbers.len());
        let bytes = &mut self.memory.bytes_mut()[place.start..place.start + 4 * place.count];
        let padding = (numbers.len()..place.count).map(padding);
        let numbers = numbers.iter().copied().chain(padding);
        for (place, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
    }

    /// As [`write`](Self::write), of f32 that need no padding.
    fn write_numbers(&mut self, place: ArraySpan, numbers: &[f32]) {
        let bits: Vec<i32> = numbers.iter().map(|number| number.to_bits().cast_signed()).collect();
        self.write(place, &bits, |_| 0);
    }

    /// Entries behind a sequence's own pages are never read and stay as they are.
    fn write_tables(&mut self, place: ArraySpan, segment: &Segment, group: usize, width: usize) {
        let (tables, own_width) = segment.block_tables(group);
        assert!(own_width <= width, "tables of {own_width} pages, room for {width}");
        let bytes = &mut self.memory.bytes_mut()[place.start..place.start + 4 * place.count];
        for (row, table) in tables.chunks_exact(own_width.max(1)).enumerate() {
            let row = &mut bytes[4 * width * row..4 * (width * row + own_width)];
            for (place, page) in row.chunks_exact_mut(4).zip(table) {
                place.copy_from_slice(&page.to_le_bytes());
            }
        }
    }
}
