//! What was done for the requests of one version of a model.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::kserve::infer_outputs::InferOutputs;

#[derive(Default)]
pub struct RequestStatistics {
    counted: Mutex<StatisticsReading>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatisticsReading {
    /// Unix milliseconds of the last request that was answered; 0 before the first.
    pub last_inference_ms: u64,
    pub inferences: u64,
    pub success: CountedTime,
    pub fail: CountedTime,
    pub queue: CountedTime,
    pub input: CountedTime,
    pub infer: CountedTime,
    pub output: CountedTime,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedTime {
    pub count: u64,
    pub ns: u64,
}

impl CountedTime {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.ns = self.ns.saturating_add(ns);
    }
}

impl RequestStatistics {
    pub fn begin(&self) -> CountedRequest<'_> {
        CountedRequest { statistics: self, started: Instant::now(), has_ended: false }
    }

    pub fn reading(&self) -> StatisticsReading {
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, count: impl FnOnce(&mut StatisticsReading)) {
        count(&mut self.counted.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A request under way; one that is dropped before its end has failed.
pub struct CountedRequest<'a> {
    statistics: &'a RequestStatistics,
    started: Instant,
    has_ended: bool,
}

impl CountedRequest<'_> {
    /// It was answered, at `now_ms`.
    pub fn succeed(mut self, outputs: &InferOutputs, now_ms: u64) {
        self.has_ended = true;
        let (times, took) = (outputs.times, nanoseconds(self.started.elapsed()));
        self.statistics.count(|it| {
            it.last_inference_ms = now_ms;
            it.inferences += outputs.inferences;
            it.success.add(took);
            it.queue.add(times.queue_ns);
            it.input.add(times.input_ns);
            it.infer.add(times.infer_ns);
            it.output.add(times.output_ns);
        });
    }
}

impl Drop for CountedRequest<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            let took = nanoseconds(self.started.elapsed());
            self.statistics.count(|it| it.fail.add(took));
        }
    }
}

pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kserve::infer_outputs::InferTimes;

    #[test]
    fn requests_are_counted_when_they_end() {
        let statistics = RequestStatistics::default();
        let times = InferTimes { queue_ns: 1, input_ns: 2, infer_ns: 3, output_ns: 4 };
        let outputs = InferOutputs { inferences: 5, times, ..InferOutputs::default() };
        let request = statistics.begin();
        assert_eq!(statistics.reading(), StatisticsReading::default());
        request.succeed(&outputs, 77);
        statistics.begin().succeed(&outputs, 78);
        drop(statistics.begin());
        let found = statistics.reading();
        assert_eq!((found.last_inference_ms, found.inferences), (78, 10));
        assert_eq!((found.success.count, found.fail.count), (2, 1));
        assert_eq!(found.queue, CountedTime { count: 2, ns: 2 });
        assert_eq!(found.input, CountedTime { count: 2, ns: 4 });
        assert_eq!(found.infer, CountedTime { count: 2, ns: 6 });
        assert_eq!(found.output, CountedTime { count: 2, ns: 8 });
    }
}
