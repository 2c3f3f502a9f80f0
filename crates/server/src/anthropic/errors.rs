//! Errors in Anthropic's shape, on all paths of its API.
//!
//! Wherever a request fails (its key, its method, its body, its fields, the engine), the failure is
//! an [`ApiError`], which its response carries along; here that response is worded anew. So no
//! handler of this API converts errors.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api_error::ApiError;
use crate::middleware::RequestLog;

const ROOT: &str = "/v1/messages";

/// Where Anthropic's clients look for what `x-request-id` says too.
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

pub async fn reword_errors(request: Request, next: Next) -> Response {
    let log = request.extensions().get::<Arc<RequestLog>>().cloned();
    let (Some(log), true) = (log, is_of_this_api(request.uri().path())) else {
        return next.run(request).await;
    };
    let mut response = next.run(request).await;
    if let Some(error) = response.extensions().get::<ApiError>() {
        let body = serde_json::to_string(&ErrorShape::new(error, log.id()));
        *response.body_mut() = Body::from(body.expect("strings always serialise"));
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    let id = HeaderValue::from_str(log.id()).expect("the id was a header's value, or is made here");
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

fn is_of_this_api(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Every error of this API has this shape.
#[derive(Serialize, ToSchema)]
#[schema(as = anthropic::Error)]
pub struct ErrorShape<'a> {
    /// `error`
    r#type: &'static str,
    error: ErrorBody<'a>,
    /// As the header `request-id`; the server's log has it too.
    request_id: &'a str,
}

/// Why there is no message.
#[derive(Serialize, ToSchema)]
#[schema(as = anthropic::ErrorBody)]
struct ErrorBody<'a> {
    r#type: ErrorType,
    /// What is wrong, and what to do.
    message: &'a str,
}

/// What kind of error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = anthropic::ErrorType)]
enum ErrorType {
    #[serde(rename = "invalid_request_error")]
    InvalidRequest,
    #[serde(rename = "authentication_error")]
    Authentication,
    #[serde(rename = "not_found_error")]
    NotFound,
    #[serde(rename = "rate_limit_error")]
    RateLimit,
    #[serde(rename = "api_error")]
    Api,
    #[serde(rename = "overloaded_error")]
    Overloaded,
    #[serde(rename = "timeout_error")]
    Timeout,
}

impl<'a> ErrorShape<'a> {
    pub fn new(error: &'a ApiError, request_id: &'a str) -> Self {
        let body =
            ErrorBody { r#type: ErrorType::of_status(error.status()), message: error.message() };
        Self { r#type: "error", error: body, request_id }
    }
}

impl ErrorType {
    fn of_status(status: StatusCode) -> Self {
        match status {
            StatusCode::UNAUTHORIZED => Self::Authentication,
            StatusCode::NOT_FOUND => Self::NotFound,
            StatusCode::TOO_MANY_REQUESTS => Self::RateLimit,
            StatusCode::SERVICE_UNAVAILABLE => Self::Overloaded,
            StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => Self::Timeout,
            status if status.is_server_error() => Self::Api,
            _ => Self::InvalidRequest,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use terrace_engine::Error as EngineError;

    use super::*;

    #[track_caller]
    fn check(error: impl Into<ApiError>, want: &str) {
        let error = error.into();
        let shape = serde_json::to_value(ErrorShape::new(&error, "req-1")).expect("strings");
        assert_eq!(shape["type"], "error");
        assert_eq!(shape["request_id"], "req-1");
        assert_eq!(shape["error"]["type"], want);
        assert_eq!(shape["error"]["message"], error.message());
    }

    #[test]
    fn every_status_has_its_type() {
        check(ApiError::invalid("n", "n is 0"), "invalid_request_error");
        check(ApiError::bad_key(), "authentication_error");
        check(ApiError::unknown_model("a", "b"), "not_found_error");
        check(EngineError::QueueFull { waiting: 8, limit: 8 }, "rate_limit_error");
        check(EngineError::Stopped, "overloaded_error");
        check(ApiError::internal("a step failed"), "api_error");
        check(ApiError::timed_out(5), "timeout_error");
        check(ApiError::late_body(Duration::from_secs(1)), "timeout_error");
    }

    #[test]
    fn paths_below_are_of_this_api() {
        for path in ["/v1/messages", "/v1/messages/count_tokens", "/v1/messages/batches"] {
            assert!(is_of_this_api(path), "{path}");
        }
        for path in ["/", "/v1", "/v1/messagesabc", "/v1/chat/completions"] {
            assert!(!is_of_this_api(path), "{path}");
        }
    }
}
