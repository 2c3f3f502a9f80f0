//! `GET /ping` (also `/health`) and `GET /engine_check`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app_state::AppState;

#[derive(Serialize, ToSchema)]
pub struct Status {
    /// `Healthy`, `Running` or `Error`.
    status: &'static str,
}

/// Whether the server is up.
#[utoipa::path(get, path = "/ping", tag = "Service", operation_id = "ping",
    responses((status = 200, description = "it is", body = Status)))]
pub async fn ping() -> Json<Status> {
    Json(Status { status: "Healthy" })
}

/// As `/ping`, under the name that load balancers look for.
#[utoipa::path(get, path = "/health", tag = "Service", operation_id = "health",
    responses((status = 200, description = "it is", body = Status)))]
pub async fn health() -> Json<Status> {
    ping().await
}

/// Whether the engines' threads run: `Running` or `Error`.
#[utoipa::path(get, path = "/engine_check", tag = "Service", operation_id = "engineCheck",
    responses((status = 200, description = "whether they run", body = Status)))]
pub async fn engine_check(State(state): State<Arc<AppState>>) -> Json<Status> {
    let runs = state.services.are_running();
    Json(Status { status: if runs { "Running" } else { "Error" } })
}
