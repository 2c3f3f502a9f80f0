//! A recommender as NVIDIA's exported HSTU models are served: jagged features in, logits out.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::{BoxFuture, try_join_all};
use terrace_engine::rank::{RankOutput, RankRequest};

use super::batch_counter::BatchCounter;
use super::config_shape::config_of;
use super::datatype::Datatype;
use super::infer_error::InferError;
use super::infer_outputs::{InferOutputs, InferTimes};
use super::infer_request::InferRequest;
use super::inference_model::{BatchExecutions, InferenceModel, ModelMetadata, TensorMetadata};
use super::jagged_features::{CANDIDATES, JaggedFeatures, LENGTHS, TOTALS, USERS, VALUES};
use super::messages::ModelConfig;
use super::model_registry::nanoseconds;
use super::tensor::Tensor;
use super::tensor_data::TensorData;
use crate::api_error::ApiError;
use crate::metrics::RequestMetrics;
use crate::ranking::RankedModel;

/// Of each candidate, user by user, under either name.
const LOGITS: [&str; 2] = ["logits", "OUTPUT__0"];
/// Copies of a user's cache that a client of the original waits for: here there are none.
const TASKS: [&str; 2] = ["task_ids", "OUTPUT__1"];

pub struct RecommenderModel {
    metadata: ModelMetadata,
    model: Arc<RankedModel>,
    metrics: Arc<RequestMetrics>,
    batches: BatchCounter,
}

impl RecommenderModel {
    /// `None` for models that score no candidates, or need the times of events, which the
    /// original's inputs have not got.
    pub fn new(model: &Arc<RankedModel>, metrics: &Arc<RequestMetrics>) -> Option<Self> {
        let front = model.engine.front();
        if front.retrieves || front.has_times {
            return None;
        }
        let ids = |names: [&str; 2]| TensorMetadata::new(names[0], Datatype::Int64, &[-1]);
        // Classes are as many as the head has, which the configuration does not say.
        let outputs = if model.has_classes() { -1 } else { width(model.num_tasks) };
        let metadata = ModelMetadata {
            name: model.name.clone(),
            version: 1,
            platform: "torch_aoti".to_owned(),
            inputs: [VALUES, LENGTHS, CANDIDATES, USERS, TOTALS].map(ids).to_vec(),
            outputs: vec![
                TensorMetadata::new(LOGITS[0], Datatype::Fp32, &[-1, outputs]),
                ids(TASKS),
            ],
        };
        let (model, metrics) = (Arc::clone(model), Arc::clone(metrics));
        Some(Self { metadata, model, metrics, batches: BatchCounter::default() })
    }

    async fn rank(&self, mut request: InferRequest) -> Result<InferOutputs, InferError> {
        let started = Instant::now();
        let names = names_of(&request);
        let (priority, timeout) = (request.priority, request.timeout);
        let features = JaggedFeatures::take(&mut request)?;
        let mut users = features.users(self.model.engine.front().layout, &request.tenant)?;
        for user in &mut users {
            user.priority = rank_priority(priority);
            user.timeout_ms = timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(0));
        }
        let input_ns = nanoseconds(started.elapsed());
        let ranking = users.into_iter().enumerate().map(|(index, user)| self.user(index, user));
        let ranked = try_join_all(ranking).await?;
        let times = times_of(&ranked, input_ns);
        self.batches.add(ranked.len() as u64, times);
        Ok(InferOutputs {
            inferences: ranked.len() as u64,
            tensors: self.outputs(&ranked, names)?,
            times,
            ..InferOutputs::default()
        })
    }

    async fn user(&self, index: usize, user: RankRequest) -> Result<RankOutput, InferError> {
        // Without candidates the history is computed and kept.
        let output = self.model.engine.append(user).await.map_err(|error| {
            let error = InferError::from(&ApiError::from(error));
            InferError { message: format!("user {index}: {}", error.message), ..error }
        })?;
        self.metrics.ranked(&self.model.name, output.times);
        Ok(output)
    }

    fn outputs(&self, ranked: &[RankOutput], names: [&str; 2]) -> Result<Vec<Tensor>, InferError> {
        let logits: Vec<f32> = ranked.iter().flat_map(|output| &output.logits).copied().collect();
        let of_outputs = ranked.iter().map(|output| output.outputs).max();
        let outputs = of_outputs.filter(|outputs| *outputs > 0).unwrap_or(self.model.num_tasks);
        let shape = vec![width(logits.len() / outputs.max(1)), width(outputs)];
        Ok(vec![
            Tensor::new(names[0], shape, TensorData::Fp32(logits))?,
            Tensor::list(names[1], TensorData::Int64(Vec::new())),
        ])
    }
}

impl InferenceModel for RecommenderModel {
    fn metadata(&self) -> &ModelMetadata {
        &self.metadata
    }

    fn config(&self) -> ModelConfig {
        let mut config = config_of(&self.metadata);
        for input in config.input.iter_mut().filter(|input| input.name == TOTALS[0]) {
            input.optional = true;
        }
        config
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'_, Result<InferOutputs, InferError>> {
        Box::pin(self.rank(request))
    }

    fn batches(&self) -> Vec<BatchExecutions> {
        self.batches.batches()
    }

    fn is_ready(&self) -> bool {
        self.model.engine.is_running()
    }
}

/// What its outputs are called: as it asks for them, else as it calls its inputs.
fn names_of(request: &InferRequest) -> [&'static str; 2] {
    let asks = |name: &str| request.outputs.iter().any(|output| output.name == name);
    let is_numbered = match request.outputs.is_empty() {
        true => request.tensors.iter().any(|tensor| tensor.name() == VALUES[1]),
        false => asks(LOGITS[1]) || asks(TASKS[1]),
    };
    match is_numbered {
        true => [LOGITS[1], TASKS[1]],
        false => [LOGITS[0], TASKS[0]],
    }
}

/// Here higher ones run first. Who names a priority comes before who does not.
fn rank_priority(priority: u64) -> i32 {
    match i32::try_from(priority) {
        Ok(0) => 0,
        Ok(priority) => i32::MAX - priority,
        Err(_) => 1,
    }
}

/// Of the user that was in each place longest.
fn times_of(ranked: &[RankOutput], input_ns: u64) -> InferTimes {
    let longest =
        |us: fn(&RankOutput) -> u64| ranked.iter().map(us).max().unwrap_or(0).saturating_mul(1000);
    InferTimes {
        queue_ns: longest(|output| output.times.queued_us),
        input_ns: input_ns.saturating_add(longest(|output| output.times.fetched_us)),
        infer_ns: longest(|output| output.times.computed_us),
        output_ns: 0,
    }
}

fn width(count: usize) -> i64 {
    i64::try_from(count).expect("memory has fewer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_priority_is_the_highest() {
        let order = [1, 2, 1000, u64::from(u32::MAX), 0].map(rank_priority);
        assert!(order.is_sorted_by(|a, b| a > b), "{order:?}");
    }
}
