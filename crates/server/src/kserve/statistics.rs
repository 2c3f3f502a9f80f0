//! What was done for a version of a model, as the protocol reports it.

use super::inference_model::BatchExecutions;
use super::messages::{InferBatchStatistics, InferStatistics, ModelStatistics, StatisticDuration};
use super::model_registry::{CountedTime, ServedVersion};

pub fn statistics_of(served: &ServedVersion) -> ModelStatistics {
    let (metadata, reading, batches) = (served.metadata(), served.statistics(), served.batches());
    ModelStatistics {
        name: metadata.name.clone(),
        version: metadata.version.to_string(),
        last_inference: reading.last_inference_ms,
        inference_count: reading.inferences,
        execution_count: batches.iter().map(|batch| batch.executions).sum(),
        inference_stats: Some(InferStatistics {
            success: duration(reading.success),
            fail: duration(reading.fail),
            queue: duration(reading.queue),
            compute_input: duration(reading.input),
            compute_infer: duration(reading.infer),
            compute_output: duration(reading.output),
            // There is no cache of responses.
            cache_hit: duration(CountedTime::default()),
            cache_miss: duration(CountedTime::default()),
        }),
        batch_stats: batches.iter().map(batch_statistics).collect(),
        ..ModelStatistics::default()
    }
}

fn batch_statistics(batch: &BatchExecutions) -> InferBatchStatistics {
    let of = |ns| duration(CountedTime { count: batch.executions, ns });
    InferBatchStatistics {
        batch_size: batch.batch_size,
        compute_input: of(batch.input_ns),
        compute_infer: of(batch.infer_ns),
        compute_output: of(batch.output_ns),
    }
}

fn duration(time: CountedTime) -> Option<StatisticDuration> {
    let CountedTime { count, ns } = time;
    Some(StatisticDuration { count, ns })
}
