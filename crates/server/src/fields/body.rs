//! From a request's body to its fields, within limits.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use tokio::time::timeout;

use super::Fields;
use crate::api_error::{ApiError, ApiResult};
use crate::app_state::AppState;
use crate::limits::Limits;
use crate::middleware::{Caller, RequestLog};

impl FromRequest<Arc<AppState>> for Fields {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &Arc<AppState>) -> ApiResult<Self> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(is_json) {
            let message = "send the body with the header `Content-Type: application/json`";
            return Err(ApiError::bad_body(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let limits = &state.config.limits;
        let log = request.extensions().get::<Arc<RequestLog>>().cloned();
        let caller = request.extensions().get::<Caller>().copied();
        let caller = caller.expect("every request that passes has one");
        let body = read_body(request, limits).await?;
        let log = log.filter(|_| state.config.ignore_unknown_fields);
        let ignored = log.map(|log| Arc::clone(&log.ignored_fields));
        Ok(Self { ignored, max_choices: limits.choices, caller, ..Self::parse(&body)? })
    }
}

/// The whole body, within its limits.
pub async fn read_body(request: Request, limits: &Limits) -> ApiResult<Bytes> {
    let body = timeout(limits.idle_time, Bytes::from_request(request, &())).await;
    body.map_err(|_| ApiError::late_body(limits.idle_time))?.map_err(|rejection| {
        let status = rejection.status();
        let message = match status {
            StatusCode::PAYLOAD_TOO_LARGE => body_too_long(limits),
            _ => "the body could not be read to its end: it is cut off, or not what its \
                  Content-Encoding says"
                .to_owned(),
        };
        ApiError::bad_body(status, message)
    })
}

pub fn body_too_long(limits: &Limits) -> String {
    let limit = limits.body_bytes;
    format!("the body is longer than {limit} bytes, the server's limit")
}

fn is_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case("application/json")
}
