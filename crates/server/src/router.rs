//! Which path leads where, and what every request passes on its way.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

use crate::api_error::ApiError;
use crate::metrics::Metrics;
use crate::state::AppState;
use crate::{auth, home, logging, openai, seed};

pub fn router(state: Arc<AppState>) -> Router {
    Router::new()
        .route("/", get(home::show))
        .route("/v1/models", get(openai::models::list))
        .route("/v1/models/{*id}", get(openai::models::get))
        .route("/v1/completions", post(openai::completions::create))
        .route("/v1/chat/completions", post(openai::chat::create))
        .route("/tokenize", post(openai::tokenize::tokenize))
        .route("/detokenize", post(openai::tokenize::detokenize))
        .route("/ping", get(seed::health::ping))
        .route("/health", get(seed::health::ping))
        .route("/engine_check", get(seed::health::engine_check))
        .route("/completion", post(seed::completion::create))
        .route("/chat", post(seed::chat::create))
        .route("/metrics", get(Metrics::show))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(state.config.limits.body_bytes))
        .layer(from_fn_with_state(Arc::clone(&state), auth::check_key))
        .layer(from_fn_with_state(Arc::clone(&state), logging::log_request))
        .with_state(state)
}

async fn unknown_path(uri: Uri) -> ApiError {
    let message = format!("nothing is at {}; GET / lists the routes", uri.path());
    ApiError::unknown_route(StatusCode::NOT_FOUND, message)
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("{} does not take {method}; GET / lists the routes", uri.path());
    ApiError::unknown_route(StatusCode::METHOD_NOT_ALLOWED, message)
}

#[cfg(test)]
mod tests;
