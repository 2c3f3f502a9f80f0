//! What a model has done.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Default)]
pub(super) struct PredictCounters {
    stats: Mutex<PredictStats>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PredictStats {
    /// By the samples of a batch.
    pub batches: BTreeMap<usize, BatchStats>,
    pub failed_batches: u64,
    /// Versions of dense weights that took over while it served.
    pub weight_versions: u64,
    /// Those that did not fit and were left out.
    pub refused_weights: u64,
}

/// Batches of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchStats {
    pub count: u64,
    pub input: Duration,
    pub compute: Duration,
    pub output: Duration,
}

impl PredictCounters {
    pub fn read(&self) -> PredictStats {
        self.lock().clone()
    }

    pub fn add_batch(&self, samples: usize, one: BatchStats) {
        let mut stats = self.lock();
        let batches = stats.batches.entry(samples).or_default();
        batches.count += one.count;
        batches.input += one.input;
        batches.compute += one.compute;
        batches.output += one.output;
    }

    pub fn add_failed_batch(&self) {
        self.lock().failed_batches += 1;
    }

    pub fn add_weights(&self, are_taken: bool) {
        let mut stats = self.lock();
        match are_taken {
            true => stats.weight_versions += 1,
            false => stats.refused_weights += 1,
        }
    }

    fn lock(&self) -> MutexGuard<'_, PredictStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
