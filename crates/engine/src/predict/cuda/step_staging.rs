//! Pinned memory that a batch is brought in: the GPU reads it where it is, and writes results
//! there.

use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, PinnedBuffer};
use terrace_device::{DType, View, ViewMut};

use super::predict_form::PredictForm;
use crate::error::Error;
use crate::predict::request_shape::RequestShape;
use crate::predict::samples::Samples;

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
    /// i64
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

    /// The samples, and behind them some that only fill up.
    pub fn write(&mut self, samples: &Samples, form: &PredictForm) {
        let numbers = form.samples * self.dense_dim;
        let mut dense = self.dense.view_mut(DType::F32, [numbers]);
        let dense = dense.as_mut_slice::<f32>();
        let (own, rest) = dense.split_at_mut(samples.dense.len());
        own.copy_from_slice(&samples.dense);
        rest.fill(0.0);
        for ((table, keys), one_hot) in
            self.tables.iter_mut().zip(&samples.tables).zip(&form.one_hot)
        {
            let segments = form.samples * table.slots;
            let count = if *one_hot { segments } else { keys.keys.len() };
            let mut staged = table.keys.view_mut(DType::I64, [count]);
            let (own, rest) = staged.as_mut_slice::<i64>().split_at_mut(keys.keys.len());
            own.copy_from_slice(&keys.keys);
            rest.fill(keys.keys.first().copied().unwrap_or(0));
            if !one_hot {
                let mut staged = table.offsets.view_mut(DType::I32, [segments + 1]);
                let staged = staged.as_mut_slice::<i32>();
                let (own, rest) = staged.split_at_mut(keys.offsets.len());
                own.copy_from_slice(&keys.offsets);
                rest.fill(keys.keys.len() as i32);
            }
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
    /// Before a launch.
    pub fn begin(&mut self, now: u32) {
        self.now.view_mut(DType::I32, [1]).as_mut_slice::<i32>()[0] = now as i32;
        self.missed.view_mut(DType::I32, [1]).as_mut_slice::<i32>()[0] = 0;
    }

    pub fn views(&mut self, samples: usize, is_one_hot: bool) -> TableViews<'_> {
        let segments = samples * self.slots;
        // Without offsets there are as many keys as segments; with them, offsets count.
        let keys = if is_one_hot { segments } else { self.keys.bytes().len() / size_of::<i64>() };
        TableViews {
            keys: self.keys.device_view(DType::I64, [keys]),
            offsets: (!is_one_hot).then(|| self.offsets.device_view(DType::I32, [segments + 1])),
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
