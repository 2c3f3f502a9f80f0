//! One instance of a model: a thread that takes batches and answers them.

use std::sync::Arc;
use std::time::Instant;

use super::batch_queue::{BatchQueue, Waiting};
use super::predict_counters::{BatchStats, PredictCounters};
use super::predict_error::PredictError;
use super::predict_executor::PredictExecutor;
use super::prediction::{PredictTimes, Prediction};
use super::samples::Samples;
use super::weight_source::WeightSource;

pub(super) struct Instance {
    /// Of the model and the instance, for messages.
    pub name: String,
    pub executor: Box<dyn PredictExecutor>,
    pub queue: Arc<BatchQueue>,
    pub counters: Arc<PredictCounters>,
    pub weights: Option<Arc<dyn WeightSource>>,
    /// That the executor has, or that did not fit.
    pub weight_version: Option<u64>,
    pub batch: Samples,
    /// Numbers of a sample.
    pub outputs: usize,
    pub numbers: Vec<f32>,
}

impl Instance {
    /// Until the queue is closed and empty.
    pub fn run(mut self) {
        while let Some(waiting) = self.queue.next() {
            self.take_weights();
            self.compute(waiting);
        }
    }

    /// Newer weights take over between two batches.
    fn take_weights(&mut self) {
        let Some(newest) = self.weights.as_ref().and_then(|weights| weights.newest()) else {
            return;
        };
        if self.weight_version == Some(newest.version) {
            return;
        }
        self.weight_version = Some(newest.version);
        let replaced = self.executor.replace_weights(&newest.safetensors);
        self.counters.add_weights(replaced.is_ok());
        let (name, version) = (&self.name, newest.version);
        match replaced {
            Ok(()) => tracing::info!("{name}: dense weights of version {version} took over"),
            Err(error) => tracing::warn!(
                "{name}: dense weights of version {version} do not fit, so those before stay: \
                 {error}"
            ),
        }
    }

    fn compute(&mut self, waiting: Vec<Waiting>) {
        let begun = Instant::now();
        let samples = match waiting.as_slice() {
            [only] => &only.samples,
            several => {
                self.batch.clear();
                several.iter().for_each(|waiting| self.batch.extend(&waiting.samples));
                &self.batch
            }
        };
        let count = samples.count;
        self.numbers.resize(count * self.outputs, 0.0);
        let computed = self.executor.run(samples, &mut self.numbers);
        let times = match computed {
            Ok(computed) => PredictTimes {
                input: computed.input - begun,
                compute: computed.compute - computed.input,
                ..PredictTimes::default()
            },
            Err(error) => {
                tracing::error!("{}: a batch of {count} samples failed: {error}", self.name);
                self.counters.add_failed_batch();
                let failed = PredictError::Failed(error.to_string());
                for waiting in waiting {
                    // Who has asked may have left.
                    let _ = waiting.reply.send(Err(failed.clone()));
                }
                return;
            }
        };
        let computed = Instant::now();
        let mut first = 0;
        let answers = waiting.into_iter().map(|Waiting { samples, since, reply, .. }| {
            let range = first..first + samples.count * self.outputs;
            first = range.end;
            let prediction = Prediction {
                samples: samples.count,
                numbers: self.numbers[range].to_vec(),
                batch: count,
                times: PredictTimes { queue: begun - since, ..times },
            };
            (reply, prediction)
        });
        let answers: Vec<_> = answers.collect();
        let output = computed.elapsed();
        // Before anybody has an answer: then what was done for it is counted.
        let PredictTimes { input, compute, .. } = times;
        self.counters.add_batch(count, BatchStats { count: 1, input, compute, output });
        for (reply, mut prediction) in answers {
            prediction.times.output = output;
            // Who has asked may have left.
            let _ = reply.send(Ok(prediction));
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("{} has panicked; its model answers no more", self.name);
            self.queue.abandon();
        }
    }
}
