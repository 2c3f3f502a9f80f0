//! Counts executions, for models that run each request by itself.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::infer_outputs::InferTimes;
use super::inference_model::BatchExecutions;

#[derive(Default)]
pub struct BatchCounter {
    by_size: Mutex<BTreeMap<u64, BatchExecutions>>,
}

impl BatchCounter {
    pub fn add(&self, batch_size: u64, times: InferTimes) {
        let mut by_size = self.by_size();
        let batch = by_size.entry(batch_size).or_default();
        batch.batch_size = batch_size;
        batch.executions += 1;
        batch.input_ns += times.input_ns;
        batch.infer_ns += times.infer_ns;
        batch.output_ns += times.output_ns;
    }

    pub fn batches(&self) -> Vec<BatchExecutions> {
        self.by_size().values().copied().collect()
    }

    fn by_size(&self) -> MutexGuard<'_, BTreeMap<u64, BatchExecutions>> {
        self.by_size.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_add_up_by_size() {
        let counter = BatchCounter::default();
        let times = InferTimes { queue_ns: 9, input_ns: 1, infer_ns: 2, output_ns: 3 };
        for size in [4, 1, 4] {
            counter.add(size, times);
        }
        let batch = |batch_size, executions| BatchExecutions {
            batch_size,
            executions,
            input_ns: executions,
            infer_ns: 2 * executions,
            output_ns: 3 * executions,
        };
        assert_eq!(counter.batches(), [batch(1, 1), batch(4, 2)]);
    }
}
