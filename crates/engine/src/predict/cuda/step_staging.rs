//! Pinned memory that a batch is brought in: the GPU reads it where it is, and writes results
//! there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use terrace_device::cuda::{CudaDevice, PinnedBuffer};
use terrace_device::{DType, View, ViewMut, WorkerPool};

use super::predict_form::{KeysForm, PredictForm};
use crate::error::Error;
use crate::predict::request_shape::RequestShape;
use crate::predict::samples::{Samples, TableKeys};

/// What a thread copies at a time: some microseconds of work.
const PART: usize = 4096;

pub(super) struct StepStaging {
    /// f32 `[samples, dense features]`
    dense: PinnedBuffer,
    dense_dim: usize,
    tables: Vec<TableStaging>,
    /// f32 `[samples, outputs]`
    out: PinnedBuffer,
    outputs: usize,
}

pub(super) struct TableStaging {
    slots: usize,
    /// i64, or i32 if they are narrow
    keys: PinnedBuffer,
    /// i32 `[samples * slots + 1]`
    offsets: PinnedBuffer,
    /// i32 `[1]`
    now: PinnedBuffer,
    /// i32 `[1]`
    missed: PinnedBuffer,
}

impl StepStaging {
    pub fn new(device: &Arc<CudaDevice>, shape: &RequestShape) -> Result<Self, Error> {
        let samples = shape.max_samples;
        // None is empty: an address is wanted of each.
        let pinned = |bytes: usize| device.pinned(bytes.max(8));
        let tables = shape.tables.iter().map(|table| -> Result<TableStaging, Error> {
            Ok(TableStaging {
                slots: table.slots,
                keys: pinned(samples * table.keys_most.max(table.slots) * size_of::<i64>())?,
                offsets: pinned((samples * table.slots + 1) * size_of::<i32>())?,
                now: pinned(size_of::<u32>())?,
                missed: pinned(size_of::<u32>())?,
            })
        });
        Ok(StepStaging {
            dense: pinned(samples * shape.dense * size_of::<f32>())?,
            dense_dim: shape.dense,
            tables: tables.collect::<Result<_, Error>>()?,
            out: pinned(samples * shape.outputs * size_of::<f32>())?,
            outputs: shape.outputs,
        })
    }

    /// The samples, and behind them some that only fill up, so that there are `count`.
    pub fn write(&mut self, workers: &WorkerPool, samples: &Samples, count: usize) -> PredictForm {
        let numbers = count * self.dense_dim;
        let mut dense = self.dense.view_mut(DType::F32, [numbers]);
        let dense = dense.as_mut_slice::<f32>();
        let (own, rest) = dense.split_at_mut(samples.dense.len());
        workers.each_part(PART, &samples.dense, own, &|from, to| to.copy_from_slice(from));
        rest.fill(0.0);
        let tables = self.tables.iter_mut().zip(&samples.tables);
        PredictForm {
            samples: count,
            tables: tables.map(|(table, keys)| table.write(workers, keys, count)).collect(),
        }
    }

    pub fn table(&mut self, table: usize) -> &mut TableStaging {
        &mut self.tables[table]
    }

    /// Which tables have missed a key.
    pub fn missed(&self) -> Vec<bool> {
        let missed =
            |table: &TableStaging| table.missed.view(DType::I32, [1]).as_slice::<i32>()[0] != 0;
        self.tables.iter().map(missed).collect()
    }

    /// Dense features and results at once: one is read while the other is written.
    pub fn ends(&mut self, samples: usize) -> (Option<View<'_>>, ViewMut<'_>) {
        let StepStaging { dense, dense_dim, out, outputs, .. } = self;
        let dense = (*dense_dim > 0).then(|| dense.device_view(DType::F32, [samples, *dense_dim]));
        (dense, out.device_view_mut(DType::F32, [samples, *outputs]))
    }

    /// The results, once they have come.
    pub fn results(&self, numbers: &mut [f32]) {
        let out = self.out.view(DType::F32, [numbers.len()]);
        numbers.copy_from_slice(out.as_slice());
    }
}

/// What a table's look-up reads and writes, as the GPU sees it.
pub(super) struct TableViews<'a> {
    pub keys: View<'a>,
    pub offsets: Option<View<'a>>,
    pub now: View<'a>,
    pub missed: ViewMut<'a>,
}

impl TableStaging {
    fn write(&mut self, workers: &WorkerPool, keys: &TableKeys, samples: usize) -> KeysForm {
        let (segments, is_one_hot) = (samples * self.slots, keys.is_one_hot());
        let count = if is_one_hot { segments } else { keys.keys().len() };
        let is_narrow = self.write_narrow(workers, keys.keys(), count);
        if !is_narrow {
            let mut staged = self.keys.view_mut(DType::I64, [count]);
            let (own, rest) = staged.as_mut_slice::<i64>().split_at_mut(keys.keys().len());
            workers.each_part(PART, keys.keys(), own, &|from, to| to.copy_from_slice(from));
            rest.fill(keys.keys().first().copied().unwrap_or(0));
        }
        if !is_one_hot {
            let mut staged = self.offsets.view_mut(DType::I32, [segments + 1]);
            let staged = staged.as_mut_slice::<i32>();
            let (own, rest) = staged.split_at_mut(keys.offsets().len());
            own.copy_from_slice(keys.offsets());
            rest.fill(keys.keys().len() as i32);
        }
        KeysForm { is_one_hot, is_narrow }
    }

    /// Whether all keys fit into 32 bits: half as many bytes go over the bus.
    fn write_narrow(&mut self, workers: &WorkerPool, keys: &[i64], count: usize) -> bool {
        let mut staged = self.keys.view_mut(DType::I32, [count]);
        let (own, rest) = staged.as_mut_slice::<i32>().split_at_mut(keys.len());
        let is_wide = AtomicBool::new(false);
        workers.each_part(PART, keys, own, &|keys, to| {
            let mut high = 0;
            for (to, key) in to.iter_mut().zip(keys) {
                *to = *key as i32;
                high |= *key >> 32;
            }
            is_wide.fetch_or(high != 0, Ordering::Relaxed);
        });
        rest.fill(keys.first().map_or(0, |key| *key as i32));
        !is_wide.into_inner()
    }

    /// Before a launch.
    pub fn begin(&mut self, now: u32) {
        self.now.view_mut(DType::I32, [1]).as_mut_slice::<i32>()[0] = now as i32;
        self.missed.view_mut(DType::I32, [1]).as_mut_slice::<i32>()[0] = 0;
    }

    pub fn views(&mut self, samples: usize, form: KeysForm) -> TableViews<'_> {
        let segments = samples * self.slots;
        let dtype = if form.is_narrow { DType::I32 } else { DType::I64 };
        // Without offsets there are as many keys as segments; with them, offsets count.
        let room = self.keys.bytes().len() / size_of::<i64>();
        let keys = if form.is_one_hot { segments } else { room };
        TableViews {
            keys: self.keys.device_view(dtype, [keys]),
            offsets: (!form.is_one_hot)
                .then(|| self.offsets.device_view(DType::I32, [segments + 1])),
            now: self.now.device_view(DType::I32, [1]),
            missed: self.missed.device_view_mut(DType::I32, [1]),
        }
    }

    /// Where each slot's keys begin, also where each has one.
    pub fn offsets(&mut self, samples: usize, is_one_hot: bool) -> View<'_> {
        let segments = samples * self.slots;
        if is_one_hot {
            let mut staged = self.offsets.view_mut(DType::I32, [segments + 1]);
            let numbers = staged.as_mut_slice::<i32>().iter_mut().zip(0..);
            numbers.for_each(|(to, number)| *to = number);
        }
        self.offsets.device_view(DType::I32, [segments + 1])
    }
}
