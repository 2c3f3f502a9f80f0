//! `GET /v2`, `GET /v2/health/live` and `GET /v2/health/ready`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app_state::AppState;
use crate::kserve::server_metadata::{EXTENSIONS, SERVER_NAME, SERVER_VERSION};

#[derive(Serialize, ToSchema)]
#[schema(as = kserve::ServerMetadata)]
pub struct ServerMetadata {
    /// `terrace`
    name: &'static str,
    /// Its release.
    version: &'static str,
    /// Of the protocol, those that act here.
    extensions: [&'static str; EXTENSIONS.len()],
}

/// What this server is, and which extensions of the protocol it has.
#[utoipa::path(get, path = "/v2", tag = "Inference", operation_id = "serverMetadata",
    responses((status = 200, description = "that", body = ServerMetadata)))]
pub async fn show() -> Json<ServerMetadata> {
    Json(ServerMetadata { name: SERVER_NAME, version: SERVER_VERSION, extensions: EXTENSIONS })
}

/// Whether the server is up.
#[utoipa::path(get, path = "/v2/health/live", tag = "Inference", operation_id = "serverLive",
    responses((status = 200, description = "it is")))]
pub async fn live() -> StatusCode {
    StatusCode::OK
}

/// Whether the server can answer: all of its models run.
#[utoipa::path(get, path = "/v2/health/ready", tag = "Inference", operation_id = "serverReady",
    responses((status = 200, description = "it can"), (status = 400, description = "it cannot")))]
pub async fn ready(State(state): State<Arc<AppState>>) -> StatusCode {
    status_of(state.services.are_running())
}

/// As the protocol says whether something is ready, without a body.
pub fn status_of(is_ready: bool) -> StatusCode {
    if is_ready { StatusCode::OK } else { StatusCode::BAD_REQUEST }
}
