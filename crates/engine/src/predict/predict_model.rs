//! A model that predicts: its requests in, its instances on threads of their own, numbers out.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::batch_policy::BatchPolicy;
use super::batch_queue::{BatchQueue, Waiting};
use super::instance::Instance;
use super::predict_counters::{PredictCounters, PredictStats};
use super::predict_error::PredictError;
use super::predict_executor::PredictExecutor;
use super::prediction::Prediction;
use super::request_shape::RequestShape;
use super::samples::Samples;
use super::vcsr_request::VcsrRequest;
use super::weight_source::WeightSource;
use crate::error::Error;

/// Ends its threads when it is dropped, after what was asked before.
pub struct PredictModel {
    name: String,
    shape: RequestShape,
    queue: Arc<BatchQueue>,
    counters: Arc<PredictCounters>,
    threads: Vec<JoinHandle<()>>,
}

/// What a model is put together from. Each part may be another's own.
pub struct PredictParts {
    pub name: String,
    pub shape: RequestShape,
    pub batching: BatchPolicy,
    /// One for each instance.
    pub executors: Vec<Box<dyn PredictExecutor>>,
    /// Where newer dense weights come from, if from anywhere.
    pub weights: Option<Arc<dyn WeightSource>>,
}

impl PredictModel {
    pub fn start(parts: PredictParts) -> Result<Self, Error> {
        let PredictParts { name, shape, batching, executors, weights } = parts;
        let queue = Arc::new(BatchQueue::new(batching));
        let counters = Arc::<PredictCounters>::default();
        let mut model = PredictModel { name, shape, queue, counters, threads: Vec::new() };
        for (number, executor) in executors.into_iter().enumerate() {
            let instance = Instance {
                name: format!("{} (instance {number})", model.name),
                executor,
                queue: Arc::clone(&model.queue),
                counters: Arc::clone(&model.counters),
                weights: weights.clone(),
                weight_version: None,
                batch: Samples::empty(model.shape.tables.len()),
                outputs: model.shape.outputs,
                numbers: Vec::new(),
            };
            let thread = std::thread::Builder::new().name("terrace-predict".into());
            let thread = thread.spawn(move || instance.run());
            model.threads.push(thread.map_err(|error| Error::Threads(error.to_string()))?);
        }
        Ok(model)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn shape(&self) -> &RequestShape {
        &self.shape
    }

    /// What a request's samples are, if everything in it adds up.
    pub fn check(&self, request: VcsrRequest) -> Result<Samples, PredictError> {
        self.shape.check(request)
    }

    /// A request whose future is dropped before its batch begins is not computed.
    pub async fn predict(
        &self,
        samples: Samples,
        timeout: Option<Duration>,
    ) -> Result<Prediction, PredictError> {
        let (reply, answer) = oneshot::channel();
        self.queue.push(Waiting { samples, since: Instant::now(), timeout, reply })?;
        answer.await.map_err(|_| PredictError::Stopped)?
    }

    /// As [`predict`](Self::predict), on a thread that may wait.
    pub fn predict_blocking(&self, samples: Samples) -> Result<Prediction, PredictError> {
        let (reply, answer) = oneshot::channel();
        self.queue.push(Waiting { samples, since: Instant::now(), timeout: None, reply })?;
        answer.blocking_recv().map_err(|_| PredictError::Stopped)?
    }

    pub fn stats(&self) -> PredictStats {
        self.counters.read()
    }

    /// Requests whose batch has not begun.
    pub fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// Whether all its instances live.
    pub fn is_running(&self) -> bool {
        self.threads.iter().all(|thread| !thread.is_finished())
    }
}

impl Drop for PredictModel {
    fn drop(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..) {
            // A panic there was reported when it happened.
            let _ = thread.join();
        }
    }
}
