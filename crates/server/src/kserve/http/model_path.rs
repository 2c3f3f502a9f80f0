//! The model that a path names, and its version.

use axum::extract::{FromRequestParts, Path};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::Deserialize;

use crate::api_error::{ApiError, ApiResult};

#[derive(Debug, Deserialize)]
pub struct ModelPath {
    pub model: String,
    /// Empty where the path names none: the latest.
    #[serde(default)]
    pub version: String,
}

impl<S: Send + Sync> FromRequestParts<S> for ModelPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> ApiResult<Self> {
        let path = Path::<Self>::from_request_parts(parts, state).await;
        path.map(|Path(path)| path).map_err(|_| {
            let message = "the model's name or its version in the path is not UTF-8";
            ApiError::with_status(StatusCode::BAD_REQUEST, message)
        })
    }
}
