//! `GET /v1/users`, and `GET` and `DELETE /v1/users/{user}/cache`

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::{Extension, Json};
use serde::Serialize;
use terrace_engine::rank::{CachedSpan, Removed, RemovedRecords};
use utoipa::ToSchema;

use super::ranking_service::RankedModel;
use super::user_path::UserPath;
use super::user_query::UserQuery;
use crate::api_error::{ApiError, JsonReply};
use crate::app_state::AppState;
use crate::docs::{UnknownModel, UnknownParameter};
use crate::middleware::Caller;

#[derive(Serialize, ToSchema)]
pub struct UserList {
    /// `list`
    object: &'static str,
    /// The most recently used first.
    data: Vec<CachedUser>,
}

/// What is cached of a user.
#[derive(Serialize, ToSchema)]
pub struct CachedUser {
    /// The user.
    user: String,
    /// The model that it is cached for.
    model: String,
    /// The first position that is on the device; absent where none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_cached: Option<usize>,
    /// Tokens on any level, from the first position on.
    cached_tokens: usize,
}

/// What went with a user, level by level.
#[derive(Serialize, ToSchema)]
pub struct RemovedUser {
    /// The user; absent where all were removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// The model whose cache it was.
    model: String,
    /// Users that were known here.
    users: usize,
    /// Tokens that were known here: on device and host nothing is left.
    tokens: usize,
    /// The levels below, each looked through to its end.
    levels: Vec<RemovedLevel>,
    /// Whether nothing is left on any level.
    complete: bool,
}

#[derive(Serialize, ToSchema)]
struct RemovedLevel {
    /// `disk` or `redis`.
    name: String,
    /// Records that were removed.
    records: usize,
    /// Whether the level has answered; otherwise what it has is still there.
    reached: bool,
}

/// More than this are not listed at once.
const MOST_USERS: usize = 100_000;
const USERS: usize = 100;

impl CachedUser {
    pub fn new(user: &str, model: &str, span: CachedSpan) -> Self {
        CachedUser {
            user: user.to_owned(),
            model: model.to_owned(),
            first_cached: span.device_start,
            cached_tokens: span.length,
        }
    }
}

impl RemovedUser {
    pub async fn new(
        model: &RankedModel,
        user: Option<String>,
        removed: Removed,
    ) -> Result<Self, ApiError> {
        let names = model.engine.stats().await?.tiers.into_iter().map(|tier| tier.name);
        let level = |(name, level): (String, &RemovedRecords)| RemovedLevel {
            name,
            records: level.records,
            reached: !level.failed,
        };
        let levels: Vec<RemovedLevel> = names.zip(&removed.lower).map(level).collect();
        Ok(RemovedUser {
            user,
            model: model.name.clone(),
            users: removed.users,
            tokens: removed.tokens,
            complete: levels.iter().all(|level| level.reached),
            levels,
        })
    }
}

/// The caller's users of whom something is cached.
#[utoipa::path(get, path = "/v1/users", tag = "Recommenders", operation_id = "listUsers",
    params(("model" = Option<String>, Query, description = "which recommender"),
        ("limit" = Option<usize>, Query, description = "the most to list; 100 unless given")),
    responses((status = 200, description = "the most recently used first", body = UserList),
        UnknownParameter, UnknownModel))]
pub async fn list(
    State(state): State<Arc<AppState>>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> JsonReply<UserList> {
    let query = UserQuery::parse(query.as_deref())?;
    let model = state.services.ranking.model(query.model.as_deref())?;
    let limit = query.limit.unwrap_or(USERS).min(MOST_USERS);
    let tenant = caller.owner(&state.config.api_keys).unwrap_or_default();
    let users = model.engine.users(&tenant, limit).await?.into_iter();
    let data = users.map(|(user, span)| CachedUser::new(&user.user, &model.name, span)).collect();
    Ok(Json(UserList { object: "list", data }))
}

/// What is cached of a user.
#[utoipa::path(get, path = "/v1/users/{user}/cache", tag = "Recommenders",
    operation_id = "getUserCache",
    params(("user" = String, Path, description = "the user"),
        ("model" = Option<String>, Query, description = "which recommender")),
    responses((status = 200, description = "nothing of a user who is not known",
        body = CachedUser), UnknownParameter, UnknownModel))]
pub async fn show(path: UserPath, RawQuery(query): RawQuery) -> JsonReply<CachedUser> {
    let query = UserQuery::parse(query.as_deref())?;
    let model = path.state.services.ranking.model(query.model.as_deref())?;
    let span = model.engine.span(path.key).await?;
    Ok(Json(CachedUser::new(&path.user, &model.name, span)))
}

/// Removes a user from every level: device, host, disk and Redis. Requests of it that have begun
/// end first.
#[utoipa::path(delete, path = "/v1/users/{user}/cache", tag = "Recommenders",
    operation_id = "deleteUserCache",
    params(("user" = String, Path, description = "the user"),
        ("model" = Option<String>, Query, description = "which recommender")),
    responses((status = 200, description = "what went, level by level", body = RemovedUser),
        UnknownParameter, UnknownModel))]
pub async fn delete(path: UserPath, RawQuery(query): RawQuery) -> JsonReply<RemovedUser> {
    let query = UserQuery::parse(query.as_deref())?;
    let model = path.state.services.ranking.model(query.model.as_deref())?;
    let removed = model.engine.remove_user(path.key).await?;
    Ok(Json(RemovedUser::new(&model, Some(path.user), removed).await?))
}
