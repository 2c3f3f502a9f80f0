//! Errors as Ollama's clients read them: `{"error": "why"}`.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api_error::ApiError;

#[derive(Serialize, ToSchema)]
pub struct OllamaError<'a> {
    /// What is wrong, and what to do.
    pub error: &'a str,
}

/// Gives every error below `/api/` Ollama's shape, wherever on the way it came up.
pub async fn reword_errors(request: Request, next: Next) -> Response {
    let is_ollama = request.uri().path().starts_with("/api/");
    let mut response = next.run(request).await;
    if let Some(error) = response.extensions().get::<ApiError>()
        && is_ollama
    {
        let body = serde_json::to_string(&OllamaError { error: error.message() });
        *response.body_mut() = Body::from(body.expect("strings always serialise"));
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    response
}

/// The response to what would change which models there are.
pub async fn fixed_models() -> ApiError {
    let message = "this server's models are chosen when it is started (terrace serve --model); \
                   they cannot be pulled, created, copied, pushed or deleted over HTTP";
    ApiError::unknown_route(StatusCode::FORBIDDEN, message.to_owned())
}
