//! `GET /ping` (also `/health`) and `GET /engine_check`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::state::AppState;

#[derive(Serialize)]
pub struct Status {
    status: &'static str,
}

/// The server receives and sends.
pub async fn ping() -> Json<Status> {
    Json(Status { status: "Healthy" })
}

/// The engines run, from before the port opens.
pub async fn engine_check(State(state): State<Arc<AppState>>) -> Json<Status> {
    let runs = !state.models.is_empty() && state.models.iter().all(|model| model.is_running());
    Json(Status { status: if runs { "Running" } else { "Error" } })
}
