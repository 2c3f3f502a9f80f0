//! `GET /v1/models` and `GET /v1/models/{id}`

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api_error::{ApiError, ErrorShape, JsonReply};
use crate::app_state::AppState;
use crate::docs::UnknownModel;
use crate::language::ServedModel;
use crate::ranking::RankedModel;
use crate::services::Services;

#[derive(Serialize, ToSchema)]
pub struct ModelList {
    /// `list`
    object: &'static str,
    /// The models, in the order in which the server was given them.
    data: Vec<ModelShape>,
}

#[derive(Serialize, ToSchema)]
pub struct ModelShape {
    /// The name to ask for.
    id: String,
    /// `model`
    object: &'static str,
    /// Since when it is served, in Unix seconds.
    created: u64,
    /// `terrace`
    owned_by: &'static str,
    /// Tokens of prompt and output together, or of a recommender's history; not in OpenAI's API,
    /// but used by clients.
    max_model_len: usize,
    /// The adapter that changes the model's weights, where one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    adapter: Option<String>,
}

/// The models that are served.
#[utoipa::path(get, path = "/v1/models", tag = "Models", operation_id = "listModels",
    responses((status = 200, description = "all of them", body = ModelList)))]
pub async fn list(State(state): State<Arc<AppState>>) -> Json<ModelList> {
    let Services { language, ranking, .. } = &state.services;
    let language = language.models().iter().map(|model| shape(&state, model));
    let ranking = ranking.models().iter().map(|model| ranked_shape(&state, model));
    let data = language.chain(ranking).collect();
    Json(ModelList { object: "list", data })
}

/// One model.
#[utoipa::path(get, path = "/v1/models/{*id}", tag = "Models", operation_id = "getModel",
    params(("id" = String, Path, description = "the model's name")),
    responses(UnknownModel, (status = 200, description = "the model", body = ModelShape),
        (status = 400, description = "the name is not UTF-8", body = ErrorShape<'_>)))]
pub async fn get(
    State(state): State<Arc<AppState>>,
    id: Result<Path<String>, PathRejection>,
) -> JsonReply<ModelShape> {
    let not_text = |_| ApiError::invalid("model", "the model's name in the path is not UTF-8");
    let Path(id) = id.map_err(not_text)?;
    if let Ok(model) = state.services.ranking.model(Some(&id)) {
        return Ok(Json(ranked_shape(&state, &model)));
    }
    let model = state.services.language.model(Some(&id))?;
    Ok(Json(shape(&state, &model)))
}

fn ranked_shape(state: &AppState, model: &RankedModel) -> ModelShape {
    ModelShape {
        id: model.name.clone(),
        object: "model",
        created: state.started,
        owned_by: "terrace",
        max_model_len: model.engine.front().max_history_tokens,
        adapter: None,
    }
}

fn shape(state: &AppState, model: &ServedModel) -> ModelShape {
    ModelShape {
        id: model.name().to_owned(),
        object: "model",
        created: state.started,
        owned_by: "terrace",
        max_model_len: model.context_tokens(),
        adapter: model.engine().adapter().map(|adapter| adapter.name.clone()),
    }
}
