//! Addresses that are too long to be one of ours.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::uri::PathAndQuery;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::refusal::uri_too_long;
use crate::api_error::ApiError;
use crate::limits::URI_BYTES_MAX;

pub async fn check_uri(request: Request, next: Next) -> Response {
    let path = request.uri().path_and_query().map(PathAndQuery::as_str).unwrap_or_default();
    match path.len() > URI_BYTES_MAX {
        true => ApiError::bad_request(StatusCode::URI_TOO_LONG, uri_too_long()).into_response(),
        false => next.run(request).await,
    }
}
