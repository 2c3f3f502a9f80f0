//! Puts samples together, one after the other, as a model takes them.

use anyhow::{Result, bail};
use terrace_engine::predict::{RequestShape, Samples, VcsrRequest};

pub struct SampleBuilder {
    shape: RequestShape,
    /// Added to the keys of each slot; empty: nothing is.
    slot_offsets: Vec<i64>,
    samples: Samples,
    labels: Vec<f32>,
}

/// Samples of a file, with their labels where it has some.
pub struct LabelledSamples {
    pub samples: Samples,
    /// One for each sample, or none.
    pub labels: Vec<f32>,
}

impl SampleBuilder {
    /// `slot_sizes`: where the keys of every slot begin with 0, how many each has; as in training,
    /// a slot's keys then follow those of the slot before.
    pub fn new(shape: &RequestShape, slot_sizes: &[i64]) -> Result<Self> {
        let slots: usize = shape.tables.iter().map(|table| table.slots).sum();
        if !slot_sizes.is_empty() && slot_sizes.len() != slots {
            bail!("--slot-sizes has {} sizes; the model has {slots} slots", slot_sizes.len());
        }
        let mut slot_offsets = Vec::with_capacity(slot_sizes.len());
        let mut next = 0i64;
        for size in slot_sizes {
            slot_offsets.push(next);
            match next.checked_add(*size).filter(|_| *size >= 0) {
                Some(sum) => next = sum,
                None => bail!("--slot-sizes: {size} behind {next} keys is no size of a slot"),
            }
        }
        let samples = Samples::empty(shape.tables.len());
        Ok(SampleBuilder { shape: shape.clone(), slot_offsets, samples, labels: Vec::new() })
    }

    pub fn dense(&self) -> usize {
        self.shape.dense
    }

    pub fn slots(&self) -> usize {
        self.shape.tables.iter().map(|table| table.slots).sum()
    }

    pub fn len(&self) -> usize {
        self.samples.count
    }

    /// One sample; `slots` has the keys of each.
    pub fn push<'a>(
        &mut self,
        dense: &[f32],
        slots: impl ExactSizeIterator<Item = &'a [i64]>,
        label: Option<f32>,
    ) -> Result<()> {
        if dense.len() != self.dense() || slots.len() != self.slots() {
            bail!(
                "a sample with {} dense features and {} slots; the model takes {} and {}",
                dense.len(),
                slots.len(),
                self.dense(),
                self.slots()
            );
        }
        let tables = self.shape.tables.iter().enumerate();
        let mut of_slots = tables.flat_map(|(at, table)| std::iter::repeat_n(at, table.slots));
        for (slot, keys) in slots.enumerate() {
            let table = &mut self.samples.tables[of_slots.next().expect("they were counted")];
            let offset = self.slot_offsets.get(slot).copied().unwrap_or(0);
            for key in keys {
                let Some(sum) = key.checked_add(offset) else {
                    bail!("key {key} of slot {slot} and its offset {offset} do not fit 64 bits");
                };
                self.shape.key_kind.check(&[sum])?;
                table.push(sum);
            }
            table.end_slot()?;
        }
        self.samples.dense.extend_from_slice(dense);
        self.samples.count += 1;
        self.labels.extend(label);
        Ok(())
    }

    /// A request of any number of samples, without labels; keys are taken as they are.
    pub fn push_request(&mut self, request: VcsrRequest) -> Result<()> {
        let samples = self.shape.check(request)?;
        self.samples.extend(&samples);
        Ok(())
    }

    /// Those that were pushed since.
    pub fn take(&mut self) -> LabelledSamples {
        let empty = Samples::empty(self.shape.tables.len());
        let samples = std::mem::replace(&mut self.samples, empty);
        let mut labels = std::mem::take(&mut self.labels);
        if labels.len() != samples.count {
            labels.clear();
        }
        LabelledSamples { samples, labels }
    }
}
