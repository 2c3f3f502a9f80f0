//! What models of tensors have done, under Triton's names, read at the time of a scrape.

use std::sync::Arc;

use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, Opts, Registry};

use crate::kserve::{ServedVersion, StatisticsReading};
use crate::metrics::registered::registered;

/// One value for each version of a model.
pub fn gather(served: &[Arc<ServedVersion>]) -> Vec<MetricFamily> {
    let readings: Vec<_> = served.iter().map(|it| Reading::of(it)).collect();
    let registry = Registry::new();
    for (name, help, read) in COUNTERS {
        let counter = IntCounterVec::new(Opts::new(name, help), &["model", "version"]);
        let counter = registered(&registry, counter);
        for reading in &readings {
            let labels = [reading.model.as_str(), &reading.version];
            counter.with_label_values(&labels).inc_by(read(reading));
        }
    }
    registry.gather()
}

struct Reading {
    model: String,
    version: String,
    statistics: StatisticsReading,
    executions: u64,
}

impl Reading {
    fn of(served: &ServedVersion) -> Self {
        let metadata = served.metadata();
        Self {
            model: metadata.name.clone(),
            version: metadata.version.to_string(),
            statistics: served.statistics(),
            executions: served.batches().iter().map(|batch| batch.executions).sum(),
        }
    }
}

type Value = (&'static str, &'static str, fn(&Reading) -> u64);

const COUNTERS: [Value; 9] = [
    ("nv_inference_request_success", "Inference requests that were answered.", |it| {
        it.statistics.success.count
    }),
    ("nv_inference_request_failure", "Inference requests that were not answered.", |it| {
        it.statistics.fail.count
    }),
    ("nv_inference_count", "Inferences: a batch of n is n.", |it| it.statistics.inferences),
    ("nv_inference_exec_count", "Executions: a batch is one.", |it| it.executions),
    ("nv_inference_request_duration_us", "From requests to their responses.", |it| {
        it.statistics.success.ns / 1000
    }),
    ("nv_inference_queue_duration_us", "Until requests began to run.", |it| {
        it.statistics.queue.ns / 1000
    }),
    ("nv_inference_compute_input_duration_us", "Inputs were put where models read them.", |it| {
        it.statistics.input.ns / 1000
    }),
    ("nv_inference_compute_infer_duration_us", "Models ran.", |it| it.statistics.infer.ns / 1000),
    (
        "nv_inference_compute_output_duration_us",
        "Outputs were put where they are sent from.",
        |it| it.statistics.output.ns / 1000,
    ),
];
