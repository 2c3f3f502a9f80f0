//! What one step under way has of pinned memory, and its mark in the stream.
//!
//! It is written when its step starts and read when the step is over; the mark tells when.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, CudaEvent};
use terrace_device::{DType, View};
use terrace_kernels::{KvLayout, MappedBuffer};

use super::executor_memory::{ArraySet, ExecutorMemory};
use super::row_sampling::{HostRow, RowSampling};
use super::step_arrays::Staging;
use super::step_form::StepForm;
use crate::error::Error;
use crate::executors::batch::Batch;
use crate::generate::step_plan::StepPlan;

pub(super) struct StepStaging {
    staging: Staging,
    copies: MappedBuffer,
    ids: MappedBuffer,
    logits: MappedBuffer,
    chosen: MappedBuffer,
    mark: CudaEvent,
}

impl StepStaging {
    pub fn new(device: &Arc<CudaDevice>, memory: &ExecutorMemory) -> Result<Self, Error> {
        let mapped = |bytes| MappedBuffer::new(memory.copier(), device, bytes);
        Ok(StepStaging {
            staging: memory.staging(device)?,
            copies: mapped(memory.copies_bytes())?,
            ids: mapped(4 * memory.scored_rows())?,
            logits: mapped(4 * memory.scored_rows() * memory.vocab())?,
            chosen: mapped(memory.slots_bytes())?,
            mark: device.event()?,
        })
    }

    /// Starts the plan's page copies.
    pub fn send_copies(&mut self, memory: &mut ExecutorMemory, plan: &StepPlan) {
        let count = plan.copies.len();
        let bytes = self.copies.bytes_mut();
        assert!(8 * count <= bytes.len(), "{count} page copies: at most one for each page");
        for (copy, place) in plan.copies.iter().zip(bytes.chunks_exact_mut(8)) {
            place[..4].copy_from_slice(&copy.from.0.to_le_bytes());
            place[4..].copy_from_slice(&copy.to.0.to_le_bytes());
        }
        if count > 0 {
            memory.copy_pages(&self.copies, count);
        }
    }

    /// Sends a step's arrays as `form` lays them out.
    pub fn send(
        &mut self,
        memory: &mut ExecutorMemory,
        set: ArraySet,
        form: &StepForm,
        batch: &Batch,
        sampling: &RowSampling,
    ) {
        self.staging.fill(form, batch, sampling);
        self.staging.send(form, memory.arrays_mut(set));
    }

    /// Starts copying the logits of the rows that the host reads; the first wanted row of the
    /// scores on the device is `first`.
    pub fn fetch_logits(&mut self, memory: &ExecutorMemory, rows: &[HostRow], first: usize) {
        for (place, row) in rows.iter().enumerate() {
            let logits = memory.logits(row.wanted - first);
            self.logits.copy_from(4 * place * memory.vocab(), logits);
        }
    }

    pub fn fetch_ids(&mut self, memory: &ExecutorMemory, count: usize) {
        if count > 0 {
            self.ids.copy_from(0, memory.sampled(count));
        }
    }

    /// Starts copying the slots that the step has chosen.
    pub fn fetch_chosen(&mut self, memory: &mut ExecutorMemory, set: ArraySet, form: &StepForm) {
        memory.fetch_slots(set, form, &mut self.chosen);
    }

    /// The slots of a segment's group as fetched, i32 `[layers, tokens, kv_heads]`, with the last
    /// two extents.
    pub fn chosen(&self, form: &StepForm, segment: usize, group: usize) -> (&[i32], [usize; 2]) {
        let mut start = 0;
        for (index, each) in form.segments.iter().enumerate() {
            for (number, of_group) in each.groups.iter().enumerate() {
                let KvLayout::Slots(layout) = of_group.layout else { continue };
                let count = layout.layers * each.rows.len() * layout.kv_heads;
                if (index, number) == (segment, group) {
                    let all = self.chosen.view(DType::I32, [self.chosen.bytes().len() / 4]);
                    let slots = all.rows(start..start + count).as_slice();
                    return (slots, [each.rows.len(), layout.kv_heads]);
                }
                start += count;
            }
        }
        panic!("segment {segment} has no slots in group {group}")
    }

    /// Marks the end of the step.
    pub fn mark(&self) {
        self.mark.record();
    }

    pub fn wait(&self) -> Result<(), Error> {
        Ok(self.mark.wait()?)
    }

    /// f32 `[rows, vocab]`, as fetched.
    pub fn logits(&self, rows: usize, vocab: usize) -> View<'_> {
        self.logits.view(DType::F32, [rows, vocab])
    }

    pub fn ids(&self, count: usize) -> &[i32] {
        self.ids.view(DType::I32, [count]).as_slice()
    }
}
