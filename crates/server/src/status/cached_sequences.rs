//! `GET /v1/kv_cache`

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use serde::Serialize;
use terrace_engine::{CacheTrace, Positions};
use utoipa::ToSchema;

use crate::api_error::{ApiError, JsonReply};
use crate::app_state::AppState;
use crate::docs::UnknownParameter;
use crate::status::kv_levels::{KvLevel, levels};

#[derive(Serialize, ToSchema)]
pub struct CachedSequences {
    /// The model whose sequences they are.
    model: String,
    /// Those that wait or run, with the pages of each, who holds them, and which tokens are kept.
    #[schema(value_type = Vec<Object>)]
    sequences: Vec<CacheTrace>,
    /// What each level of memory holds.
    levels: Vec<KvLevel>,
}

/// What the caches of all sequences hold, and each level of memory.
///
/// Which tokens each layer and head has kept is read out of the pages between two steps; so it is
/// given only with `positions=true`.
#[utoipa::path(get, path = "/v1/kv_cache", tag = "Service", operation_id = "kvCache",
    params(("positions" = Option<bool>, Query, description = "whether to say what is kept")),
    responses((status = 200, description = "of each model", body = Vec<CachedSequences>),
        UnknownParameter))]
pub async fn list(
    State(state): State<Arc<AppState>>,
    RawQuery(query): RawQuery,
) -> JsonReply<Vec<CachedSequences>> {
    let positions = match query.as_deref() {
        None | Some("" | "positions=false") => Positions::No,
        Some("positions=true") => Positions::Yes,
        Some(other) => {
            let message = format!("{other:?} is not known here; positions=true is");
            return Err(ApiError::invalid("positions", message));
        }
    };
    let mut caches = Vec::new();
    for model in state.services.language.models() {
        let sequences = model.engine().cache_traces(positions).await?;
        let levels = levels(&model.engine().stats(), &model.engine().tier_readings());
        caches.push(CachedSequences { model: model.name().to_owned(), sequences, levels });
    }
    Ok(Json(caches))
}
