//! One version of a model while it is served, with what was done for its requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::timeout;

use super::request_statistics::{RequestStatistics, StatisticsReading};
use crate::kserve::infer_error::InferError;
use crate::kserve::infer_outputs::InferOutputs;
use crate::kserve::infer_request::InferRequest;
use crate::kserve::inference_model::{BatchExecutions, InferenceModel, ModelMetadata};
use crate::kserve::messages::ModelConfig;

/// Requests under way hold it; when the last has ended after an unload, the model goes, on a thread
/// of its own: that may take seconds. At the end of the server whoever ends it waits for that.
pub struct ServedVersion {
    /// `None` only while it is dropped.
    model: Option<Arc<dyn InferenceModel>>,
    is_at_end: AtomicBool,
    statistics: RequestStatistics,
}

impl ServedVersion {
    pub fn new(model: Arc<dyn InferenceModel>) -> Self {
        let is_at_end = AtomicBool::new(false);
        Self { model: Some(model), is_at_end, statistics: RequestStatistics::default() }
    }

    /// The server ends: who drops it last lets the model go.
    pub fn end(&self) {
        self.is_at_end.store(true, Ordering::Relaxed);
    }

    pub fn metadata(&self) -> &ModelMetadata {
        self.model().metadata()
    }

    pub fn config(&self) -> ModelConfig {
        self.model().config()
    }

    pub fn batches(&self) -> Vec<BatchExecutions> {
        self.model().batches()
    }

    pub fn is_ready(&self) -> bool {
        self.model().is_ready()
    }

    pub fn statistics(&self) -> StatisticsReading {
        self.statistics.reading()
    }

    /// Answers a request within its own time, and counts it.
    pub async fn infer(&self, request: InferRequest) -> Result<InferOutputs, InferError> {
        let counted = self.statistics.begin();
        let time = request.timeout;
        let inferring = self.model().infer(request);
        let outputs = match time {
            None => inferring.await?,
            Some(time) => timeout(time, inferring).await.map_err(|_| {
                let us = time.as_micros();
                InferError::deadline(format!("the request's timeout of {us} µs is over"))
            })??,
        };
        counted.succeed(&outputs, unix_milliseconds());
        Ok(outputs)
    }

    fn model(&self) -> &dyn InferenceModel {
        self.model.as_deref().expect("it is there until it is dropped")
    }
}

impl Drop for ServedVersion {
    fn drop(&mut self) {
        let model = self.model.take().filter(|model| Arc::strong_count(model) == 1);
        let Some(model) = model.filter(|_| !*self.is_at_end.get_mut()) else { return };
        let thread = std::thread::Builder::new().name("terrace-unload".to_owned());
        // Where there is no thread to be had it was dropped here.
        if let Err(error) = thread.spawn(move || drop(model)) {
            tracing::debug!("a model was let go by who used it last: {error}");
        }
    }
}

fn unix_milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
