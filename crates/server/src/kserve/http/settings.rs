//! `/v2/trace/setting` and `/v2/logging`: what is set, and cannot be changed.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use serde_json::{Map, Value, json};

use super::model_path::ModelPath;
use crate::api_error::{ApiError, ApiResult, JsonReply};
use crate::app_state::AppState;
use crate::docs::InferRefusals;
use crate::fields::read_body;
use crate::kserve::infer_error::InferError;
use crate::kserve::settings::{LOG_FLAGS, TRACE_SETTINGS, fixed_log, fixed_trace};

/// What is traced: nothing.
#[utoipa::path(get, path = "/v2/trace/setting", tag = "Inference",
    operation_id = "traceSettings",
    responses((status = 200, description = "that it is off", body = Value)))]
pub async fn trace() -> Json<Value> {
    let settings = TRACE_SETTINGS.map(|(name, value)| (name.to_owned(), json!([value])));
    Json(Value::Object(settings.into_iter().collect()))
}

/// What is traced of a model: nothing.
#[utoipa::path(get, path = "/v2/models/{model}/trace/setting", tag = "Inference",
    operation_id = "modelTraceSettings", params(("model" = String, Path, description = "its name")),
    responses((status = 200, description = "that it is off", body = Value), InferRefusals))]
pub async fn model_trace(State(state): State<Arc<AppState>>, path: ModelPath) -> JsonReply<Value> {
    state.services.inference.find(&path.model, "")?;
    Ok(trace().await)
}

/// What is logged.
#[utoipa::path(get, path = "/v2/logging", tag = "Inference", operation_id = "logSettings",
    responses((status = 200, description = "that", body = Value)))]
pub async fn log() -> Json<Value> {
    let flags = LOG_FLAGS.map(|(name, is_on)| (name.to_owned(), json!(is_on)));
    Json(Value::Object(flags.into_iter().collect()))
}

/// Changes what is traced: refused. A body that sets nothing is answered with what is set.
#[utoipa::path(post, path = "/v2/trace/setting", tag = "Inference",
    operation_id = "changeTraceSettings",
    responses((status = 200, description = "that it is off", body = Value), InferRefusals))]
pub async fn change_trace(
    State(state): State<Arc<AppState>>,
    request: Request,
) -> JsonReply<Value> {
    refuse_changes(request, &state, fixed_trace).await?;
    Ok(trace().await)
}

/// Changes what is traced of a model: refused, as that of all.
#[utoipa::path(post, path = "/v2/models/{model}/trace/setting", tag = "Inference",
    operation_id = "changeModelTraceSettings",
    params(("model" = String, Path, description = "its name")),
    responses((status = 200, description = "that it is off", body = Value), InferRefusals))]
pub async fn change_model_trace(
    State(state): State<Arc<AppState>>,
    path: ModelPath,
    request: Request,
) -> JsonReply<Value> {
    state.services.inference.find(&path.model, "")?;
    change_trace(State(state), request).await
}

/// Changes what is logged: refused. A body that sets nothing is answered with what is set.
#[utoipa::path(post, path = "/v2/logging", tag = "Inference",
    operation_id = "changeLogSettings",
    responses((status = 200, description = "what is set", body = Value), InferRefusals))]
pub async fn change_log(State(state): State<Arc<AppState>>, request: Request) -> JsonReply<Value> {
    refuse_changes(request, &state, fixed_log).await?;
    Ok(log().await)
}

/// A body that sets nothing is right.
async fn refuse_changes(
    request: Request,
    state: &AppState,
    refusal: fn(&str) -> InferError,
) -> ApiResult<()> {
    let body = read_body(request, &state.config.limits).await?;
    let body = if body.trim_ascii().is_empty() { b"{}" } else { body.trim_ascii() };
    let settings: Map<String, Value> = serde_json::from_slice(body).map_err(|error| {
        ApiError::from(InferError::invalid(format!("the settings are no JSON object: {error}")))
    })?;
    match settings.keys().next() {
        Some(name) => Err(refusal(name).into()),
        None => Ok(()),
    }
}
