//! Which path leads where, and what every request passes on its way.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{any, get, post};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app_state::AppState;
use crate::kserve::grpc;
use crate::kserve::http::{self as inference, error_shape};
use crate::kv_handles::{create, stored, transfer};
use crate::middleware::{auth, cors, encodings, log_request, unknown_path, wrong_method};
use crate::ranking::{events, kv_operations, rank, reload, retrieve, users};
use crate::status::{cached_sequences, health, index_page, sessions, version};
use crate::tokenizer::{tokenize, tokenizer_info};
use crate::{anthropic, colossalai, connections, docs, metrics, ollama, openai, tables};

pub fn router(state: Arc<AppState>) -> Router {
    let routes = docs::with_docs(routes())
        .merge(grpc::routes(&state))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(state.config.limits.body_bytes))
        .layer(encodings::decompression())
        .layer(from_fn(encodings::check_encoding))
        .layer(from_fn_with_state(Arc::clone(&state), auth::check_key))
        .layer(from_fn(anthropic::reword_errors))
        .layer(from_fn(ollama::error_shape::reword_errors))
        .layer(from_fn(connections::check_uri))
        .layer(from_fn(error_shape::reword_errors))
        .layer(from_fn_with_state(Arc::clone(&state), grpc::as_grpc))
        .layer(encodings::compression());
    // Around the keys: a browser's preflight has none.
    let routes = match cors::layer(&state.config.allowed_origins) {
        Some(cors) => routes.layer(cors),
        None => routes,
    };
    routes.layer(from_fn_with_state(Arc::clone(&state), log_request)).with_state(state)
}

/// Each handler says its path and method above itself, for the router and for the document.
fn routes() -> OpenApiRouter<Arc<AppState>> {
    OpenApiRouter::default()
        .routes(routes!(index_page::show))
        .routes(routes!(openai::models::list))
        .routes(routes!(openai::models::get))
        .routes(routes!(openai::completions::create))
        .routes(routes!(openai::chat::create))
        .routes(routes!(openai::responses::create::create))
        .routes(routes!(openai::responses::stored::retrieve, openai::responses::stored::delete))
        .routes(routes!(openai::responses::stored::list_input_items))
        .routes(routes!(openai::embeddings::create))
        .routes(routes!(anthropic::messages::create))
        .routes(routes!(anthropic::count_tokens::count))
        .routes(routes!(tokenize::tokenize))
        .routes(routes!(tokenize::detokenize))
        .routes(routes!(tokenizer_info::show))
        .routes(routes!(openai::score::create))
        .route("/score", post(openai::score::create))
        .routes(routes!(openai::rerank::create))
        .route("/rerank", post(openai::rerank::create))
        .route("/v2/rerank", post(openai::rerank::create))
        .routes(routes!(ollama::chat::create))
        .routes(routes!(ollama::generate::create))
        .routes(routes!(ollama::embed::embed))
        .routes(routes!(ollama::embed::embeddings))
        .routes(routes!(ollama::models::tags))
        .routes(routes!(ollama::models::show))
        .routes(routes!(ollama::models::ps))
        .routes(routes!(ollama::models::version))
        .route("/api/pull", any(ollama::error_shape::fixed_models))
        .route("/api/push", any(ollama::error_shape::fixed_models))
        .route("/api/create", any(ollama::error_shape::fixed_models))
        .route("/api/copy", any(ollama::error_shape::fixed_models))
        .route("/api/delete", any(ollama::error_shape::fixed_models))
        .route("/api/blobs/{digest}", any(ollama::error_shape::fixed_models))
        .routes(routes!(version::show))
        .routes(routes!(health::ping))
        .routes(routes!(health::health))
        .routes(routes!(health::engine_check))
        .routes(routes!(colossalai::completion::create))
        .routes(routes!(colossalai::chat::create))
        .routes(routes!(metrics::scrape::show))
        .routes(routes!(cached_sequences::list))
        .routes(routes!(create::create, stored::list))
        .routes(routes!(stored::show, stored::change, stored::delete))
        .routes(routes!(transfer::export))
        .routes(routes!(transfer::import))
        .routes(routes!(sessions::list))
        .routes(routes!(sessions::delete))
        .routes(routes!(rank::create))
        .routes(routes!(retrieve::create))
        .routes(routes!(reload::create))
        .routes(routes!(events::append))
        .routes(routes!(users::list))
        .routes(routes!(users::show, users::delete))
        .routes(routes!(kv_operations::get_user_kvdata_info))
        .routes(routes!(kv_operations::prepare_kv_cache))
        .routes(routes!(kv_operations::append_kvcache))
        .routes(routes!(kv_operations::offload_kv_cache))
        .routes(routes!(kv_operations::evict_kv_cache))
        .routes(routes!(tables::list::list))
        .routes(routes!(tables::lookup::create))
        .routes(routes!(tables::prefetch::create))
        .merge(inference_routes())
}

/// Those of the inference protocol; paths with a version are not in the document.
fn inference_routes() -> OpenApiRouter<Arc<AppState>> {
    let version = |rest: &str| format!("/v2/models/{{model}}/versions/{{version}}{rest}");
    OpenApiRouter::default()
        .routes(routes!(inference::server::show))
        .routes(routes!(inference::server::live))
        .routes(routes!(inference::server::ready))
        .routes(routes!(inference::models::show))
        .route(&version(""), get(inference::models::show))
        .routes(routes!(inference::models::ready))
        .route(&version("/ready"), get(inference::models::ready))
        .routes(routes!(inference::models::config))
        .route(&version("/config"), get(inference::models::config))
        .routes(routes!(inference::stats::list))
        .routes(routes!(inference::stats::show))
        .route(&version("/stats"), get(inference::stats::show))
        .routes(routes!(inference::infer::create))
        .route(&version("/infer"), post(inference::infer::create))
        .routes(routes!(inference::repository::index))
        .routes(routes!(inference::repository::load))
        .routes(routes!(inference::repository::unload))
        .routes(routes!(inference::shared_memory::system_status))
        .routes(routes!(inference::shared_memory::system_region))
        .routes(routes!(inference::shared_memory::system_register))
        .routes(routes!(inference::shared_memory::system_unregister))
        .route(
            "/v2/systemsharedmemory/region/{region}/unregister",
            post(inference::shared_memory::system_unregister),
        )
        .routes(routes!(inference::shared_memory::cuda_status))
        .routes(routes!(inference::shared_memory::cuda_region))
        .routes(routes!(inference::shared_memory::cuda_register))
        .routes(routes!(inference::shared_memory::cuda_unregister))
        .route(
            "/v2/cudasharedmemory/region/{region}/unregister",
            post(inference::shared_memory::cuda_unregister),
        )
        .routes(routes!(inference::settings::trace, inference::settings::change_trace))
        .routes(routes!(inference::settings::model_trace, inference::settings::change_model_trace))
        .routes(routes!(inference::settings::log, inference::settings::change_log))
}

#[cfg(test)]
pub mod tests;
