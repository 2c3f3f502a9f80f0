//! `GET /v1/models` and `GET /v1/models/{id}`

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;

use crate::api_error::ApiError;
use crate::served_model::ServedModel;
use crate::state::AppState;

#[derive(Serialize)]
pub struct ModelList {
    object: &'static str,
    data: Vec<ModelShape>,
}

#[derive(Serialize)]
pub struct ModelShape {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    /// Tokens of prompt and answer together; not in OpenAI's API, but asked for by clients.
    max_model_len: usize,
}

pub async fn list(State(state): State<Arc<AppState>>) -> Json<ModelList> {
    let data = state.models.iter().map(|model| shape(&state, model)).collect();
    Json(ModelList { object: "list", data })
}

pub async fn get(
    State(state): State<Arc<AppState>>,
    Path(id): Path<String>,
) -> Result<Json<ModelShape>, ApiError> {
    let model = state.model(Some(&id))?;
    Ok(Json(shape(&state, &model)))
}

fn shape(state: &AppState, model: &ServedModel) -> ModelShape {
    ModelShape {
        id: model.name().to_owned(),
        object: "model",
        created: state.started,
        owned_by: "terrace",
        max_model_len: model.context_tokens(),
    }
}
