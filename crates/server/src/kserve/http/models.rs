//! `GET /v2/models/{model}`, `/v2/models/{model}/ready` and `/v2/models/{model}/config`
//!
//! Each also with `/versions/{version}` behind the model.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::model_path::ModelPath;
use super::server::status_of;
use crate::api_error::JsonReply;
use crate::app_state::AppState;
use crate::docs::InferRefusals;
use crate::kserve::config_json::model_config_json;
use crate::kserve::inference_model::{ModelMetadata, TensorMetadata};

#[derive(Serialize, ToSchema)]
#[schema(as = kserve::ModelMetadata)]
pub struct ModelShape {
    /// The model.
    name: String,
    /// Those that are ready.
    versions: Vec<String>,
    /// What runs it.
    platform: String,
    /// In their order.
    inputs: Vec<TensorShape>,
    /// In their order.
    outputs: Vec<TensorShape>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = kserve::TensorMetadata)]
struct TensorShape {
    /// What it is called in requests.
    name: String,
    /// `INT64`, `FP32` and so on.
    datatype: &'static str,
    /// -1 is any length.
    shape: Vec<i64>,
}

impl TensorShape {
    fn of(tensor: &TensorMetadata) -> Self {
        let TensorMetadata { name, datatype, shape } = tensor;
        Self { name: name.clone(), datatype: datatype.name(), shape: shape.clone() }
    }
}

/// What a model takes and gives. Also as `/v2/models/{model}/versions/{version}`.
#[utoipa::path(get, path = "/v2/models/{model}", tag = "Inference",
    operation_id = "modelMetadata", params(("model" = String, Path, description = "its name")),
    responses((status = 200, description = "that", body = ModelShape), InferRefusals))]
pub async fn show(State(state): State<Arc<AppState>>, path: ModelPath) -> JsonReply<ModelShape> {
    let models = &state.services.inference;
    let served = models.find(&path.model, &path.version)?;
    let all = models.served(&path.model, &path.version)?;
    let ModelMetadata { name, platform, inputs, outputs, .. } = served.metadata();
    Ok(Json(ModelShape {
        name: name.clone(),
        versions: all.iter().map(|it| it.metadata().version.to_string()).collect(),
        platform: platform.clone(),
        inputs: inputs.iter().map(TensorShape::of).collect(),
        outputs: outputs.iter().map(TensorShape::of).collect(),
    }))
}

/// Whether a model answers. Also as `/v2/models/{model}/versions/{version}/ready`.
#[utoipa::path(get, path = "/v2/models/{model}/ready", tag = "Inference",
    operation_id = "modelReady", params(("model" = String, Path, description = "its name")),
    responses((status = 200, description = "it does"),
        (status = 400, description = "it does not")))]
pub async fn ready(State(state): State<Arc<AppState>>, path: ModelPath) -> StatusCode {
    let served = state.services.inference.find(&path.model, &path.version);
    status_of(served.is_ok_and(|served| served.is_ready()))
}

/// How a model is configured. Also as `/v2/models/{model}/versions/{version}/config`.
#[utoipa::path(get, path = "/v2/models/{model}/config", tag = "Inference",
    operation_id = "modelConfig", params(("model" = String, Path, description = "its name")),
    responses((status = 200, description = "Triton's `ModelConfig`", body = Value),
        InferRefusals))]
pub async fn config(State(state): State<Arc<AppState>>, path: ModelPath) -> JsonReply<Value> {
    let served = state.services.inference.find(&path.model, &path.version)?;
    Ok(Json(model_config_json(&served.config())))
}
