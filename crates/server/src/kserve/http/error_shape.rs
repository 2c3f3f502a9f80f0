//! Errors as clients of this protocol read them: `{"error": "why"}`.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api_error::ApiError;
use crate::kserve::infer_error::InferError;

#[derive(Serialize, ToSchema)]
#[schema(as = kserve::Error)]
pub struct InferErrorShape<'a> {
    /// What is wrong, and what to do.
    pub error: &'a str,
}

impl From<InferError> for ApiError {
    fn from(error: InferError) -> Self {
        Self::with_status(error.kind.status(), error.message)
    }
}

/// Gives every error of this protocol its shape, wherever on the way it came up.
pub async fn reword_errors(request: Request, next: Next) -> Response {
    let is_kserve = is_of_this_api(request.uri().path());
    let mut response = next.run(request).await;
    if let Some(error) = response.extensions().get::<ApiError>()
        && is_kserve
    {
        let body = serde_json::to_string(&InferErrorShape { error: error.message() });
        *response.body_mut() = Body::from(body.expect("strings always serialise"));
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    response
}

/// `/v2/rerank` is another's.
fn is_of_this_api(path: &str) -> bool {
    let below = path.strip_prefix("/v2");
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) && path != "/v2/rerank"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_are_of_this_api() {
        for path in ["/v2", "/v2/", "/v2/models/m/infer", "/v2/nowhere"] {
            assert!(is_of_this_api(path), "{path}");
        }
        for path in ["/", "/v1", "/v2abc", "/v2/rerank", "/api/v2"] {
            assert!(!is_of_this_api(path), "{path}");
        }
    }
}
