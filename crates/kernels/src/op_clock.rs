//! How long ops take, by their names: for those who measure.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub struct OpClock {
    times: Mutex<BTreeMap<&'static str, Duration>>,
}

impl OpClock {
    /// What was added up since the last call, by op.
    pub fn take(&self) -> BTreeMap<&'static str, Duration> {
        std::mem::take(&mut *self.times.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn time<T>(&self, op: &'static str, f: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = f();
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        *times.entry(op).or_default() += start.elapsed();
        result
    }
}
