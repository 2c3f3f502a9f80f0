//! `GET /v2/models/stats` and `GET /v2/models/{model}/stats`
//!
//! The second also with `/versions/{version}` behind the model.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::model_path::ModelPath;
use crate::api_error::{ApiResult, JsonReply};
use crate::app_state::AppState;
use crate::docs::InferRefusals;
use crate::kserve::messages::{
    InferBatchStatistics, InferStatistics, ModelStatistics, StatisticDuration,
};
use crate::kserve::statistics::statistics_of;

#[derive(Serialize, ToSchema)]
#[schema(as = kserve::Statistics)]
pub struct StatsShape {
    /// One for each version.
    model_stats: Vec<ModelStats>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = kserve::ModelStatistics)]
struct ModelStats {
    /// The model.
    name: String,
    /// Its version.
    version: String,
    /// When the last request was answered, in Unix milliseconds; 0 before the first.
    last_inference: u64,
    /// Inferences: a batch of ten is ten.
    inference_count: u64,
    /// Executions: a batch of ten is one.
    execution_count: u64,
    inference_stats: InferStats,
    /// By the size of the batch.
    batch_stats: Vec<BatchStats>,
}

/// Requests, and the time of all of them together.
#[derive(Serialize, ToSchema)]
#[schema(as = kserve::InferStatistics)]
struct InferStats {
    /// Answered: from the request to its response.
    success: CountShape,
    /// Not answered.
    fail: CountShape,
    /// Until it began to run.
    queue: CountShape,
    /// Inputs were put where the model reads them.
    compute_input: CountShape,
    /// The model ran.
    compute_infer: CountShape,
    /// Outputs were put where they are sent from.
    compute_output: CountShape,
    /// Always 0: there is no cache of responses.
    cache_hit: CountShape,
    /// Always 0: there is no cache of responses.
    cache_miss: CountShape,
}

#[derive(Serialize, ToSchema)]
#[schema(as = kserve::BatchStatistics)]
struct BatchStats {
    /// Samples.
    batch_size: u64,
    /// Inputs were put where the model reads them.
    compute_input: CountShape,
    /// The model ran.
    compute_infer: CountShape,
    /// Outputs were put where they are sent from.
    compute_output: CountShape,
}

#[derive(Serialize, ToSchema)]
#[schema(as = kserve::StatisticDuration)]
struct CountShape {
    /// How often.
    count: u64,
    /// Nanoseconds in all.
    ns: u64,
}

/// What was done for requests to all models.
#[utoipa::path(get, path = "/v2/models/stats", tag = "Inference", operation_id = "statistics",
    responses((status = 200, description = "that", body = StatsShape)))]
pub async fn list(State(state): State<Arc<AppState>>) -> JsonReply<StatsShape> {
    stats(&state, "", "").map(Json)
}

/// What was done for requests to a model. Also as
/// `/v2/models/{model}/versions/{version}/stats`.
#[utoipa::path(get, path = "/v2/models/{model}/stats", tag = "Inference",
    operation_id = "modelStatistics", params(("model" = String, Path, description = "its name")),
    responses((status = 200, description = "that", body = StatsShape), InferRefusals))]
pub async fn show(State(state): State<Arc<AppState>>, path: ModelPath) -> JsonReply<StatsShape> {
    stats(&state, &path.model, &path.version).map(Json)
}

fn stats(state: &AppState, model: &str, version: &str) -> ApiResult<StatsShape> {
    let served = state.services.inference.served(model, version)?;
    let model_stats = served.iter().map(|served| ModelStats::of(statistics_of(served)));
    Ok(StatsShape { model_stats: model_stats.collect() })
}

impl ModelStats {
    fn of(message: ModelStatistics) -> Self {
        Self {
            name: message.name,
            version: message.version,
            last_inference: message.last_inference,
            inference_count: message.inference_count,
            execution_count: message.execution_count,
            inference_stats: InferStats::of(message.inference_stats.unwrap_or_default()),
            batch_stats: message.batch_stats.into_iter().map(BatchStats::of).collect(),
        }
    }
}

impl InferStats {
    fn of(message: InferStatistics) -> Self {
        Self {
            success: CountShape::of(message.success),
            fail: CountShape::of(message.fail),
            queue: CountShape::of(message.queue),
            compute_input: CountShape::of(message.compute_input),
            compute_infer: CountShape::of(message.compute_infer),
            compute_output: CountShape::of(message.compute_output),
            cache_hit: CountShape::of(message.cache_hit),
            cache_miss: CountShape::of(message.cache_miss),
        }
    }
}

impl BatchStats {
    fn of(message: InferBatchStatistics) -> Self {
        Self {
            batch_size: message.batch_size,
            compute_input: CountShape::of(message.compute_input),
            compute_infer: CountShape::of(message.compute_infer),
            compute_output: CountShape::of(message.compute_output),
        }
    }
}

impl CountShape {
    fn of(message: Option<StatisticDuration>) -> Self {
        let StatisticDuration { count, ns } = message.unwrap_or_default();
        Self { count, ns }
    }
}
