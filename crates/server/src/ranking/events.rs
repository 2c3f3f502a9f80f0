//! `POST /v1/users/{user}/events`

use axum::Json;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::rank_fields::take_history;
use super::user_path::UserPath;
use crate::api_error::{ApiError, ApiResult};
use crate::docs::{EventsBody, Refusals};
use crate::fields::Fields;
use crate::language::take_model;

#[derive(Serialize, ToSchema)]
pub struct AppendedEvents {
    /// The model whose cache they go to.
    model: String,
    /// Whose events they are.
    user: String,
    /// Tokens of the history that are cached before they are computed.
    cached_tokens: usize,
    /// Items that were appended.
    appended: usize,
}

/// Appends events to what is cached of a user, in the background: the next request finds them
/// computed.
///
/// The first events of a user begin with the context's features. A request that gives `start` is
/// refused unless the cache ends there.
#[utoipa::path(post, path = "/v1/users/{user}/events", tag = "Recommenders",
    operation_id = "appendEvents", request_body = EventsBody,
    params(("user" = String, Path, description = "whose events")),
    responses((status = 202, description = "they are being computed", body = AppendedEvents),
        Refusals))]
pub async fn append(
    path: UserPath,
    mut fields: Fields,
) -> ApiResult<(StatusCode, Json<AppendedEvents>)> {
    let UserPath { state, user, key } = path;
    let request = take_history(&mut fields, key.clone())?;
    let model = take_model(&mut fields)?;
    fields.finish()?;
    let model = state.services.ranking.model(model.as_deref())?;
    let appended = request.items.len();
    if appended + request.actions.len() + request.context.len() == 0 {
        let message = "there are no events; give items, with actions where the model has them";
        return Err(ApiError::invalid("items", message));
    }
    let cached = model.engine.span(key).await?.length;
    let job = model.engine.append_events(request).await?;
    let name = model.name.clone();
    tokio::spawn(async move {
        if let Err(error) = job.await {
            tracing::warn!(%error, "events of a user were not appended");
        }
    });
    let reply = AppendedEvents { model: name, user, cached_tokens: cached, appended };
    Ok((StatusCode::ACCEPTED, Json(reply)))
}
