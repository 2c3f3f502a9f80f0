//! `GET /version`

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
pub struct Version {
    /// Numbers with dots between them.
    pub version: &'static str,
}

/// The version of this server.
#[utoipa::path(get, path = "/version", tag = "Service", operation_id = "version",
    responses((status = 200, description = "the version", body = Version)))]
pub async fn show() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION") })
}
