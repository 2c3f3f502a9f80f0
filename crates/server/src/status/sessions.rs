//! `GET /v1/sessions`, `DELETE /v1/sessions/{id}`

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::Serialize;
use terrace_engine::{SessionKey, SessionQuery, SessionReading};
use utoipa::ToSchema;

use crate::api_error::{ApiError, ApiResult, JsonReply};
use crate::app_state::{AppState, unix_seconds};
use crate::docs::{UnknownParameter, UnknownSession};
use crate::middleware::Caller;

const MAX_SESSIONS: usize = 1000;
const DEFAULT_SESSIONS: usize = 100;

/// The caller's sessions, by id.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionList {
    /// `list`
    object: &'static str,
    /// Sessions of each model.
    data: Vec<Session>,
    /// Whether there are more after the last one.
    has_more: bool,
}

/// A conversation whose KV pages are kept.
#[derive(Debug, Serialize, ToSchema)]
pub struct Session {
    /// As requests gave it.
    id: String,
    /// `kv_cache.session`
    object: &'static str,
    /// The model of its requests.
    model: String,
    /// Tokens of its last conversation.
    tokens: usize,
    /// The full KV pages of its last conversation.
    pages: PagesByTier,
    /// Requests so far.
    requests: u64,
    /// Unix seconds of its first request.
    created: u64,
    /// Unix seconds of its last request.
    last_used: u64,
    /// Unix seconds at which it ends, if no request uses it before.
    expires_at: u64,
    /// Its pages', from 0 to 100.
    priority: u8,
}

/// Each page at the fastest level that has it.
#[derive(Debug, Serialize, ToSchema)]
pub struct PagesByTier {
    /// Pages on the device.
    device: usize,
    /// Pages in host memory.
    host: usize,
    /// Pages on disk or in Redis.
    lower: usize,
    /// Pages that are computed again when they are needed.
    absent: usize,
}

#[derive(Serialize, ToSchema)]
pub struct DeletedSession {
    /// The session that is over.
    id: String,
    /// `kv_cache.session`
    object: &'static str,
    /// `true`
    deleted: bool,
}

/// The caller's sessions.
///
/// A session keeps the KV pages of its conversation. It begins with the first request that has its
/// `session_id` (or `prompt_cache_key`).
#[utoipa::path(get, path = "/v1/sessions", tag = "Service", operation_id = "listSessions",
    params(("limit" = Option<usize>, Query, description = "most sessions, 1 to 1000; default 100"),
        ("after" = Option<String>, Query, description = "the last id of the page before")),
    responses((status = 200, description = "by id", body = SessionList), UnknownParameter))]
pub async fn list(
    State(state): State<Arc<AppState>>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> JsonReply<SessionList> {
    let SessionPage { limit, after } = SessionPage::read(query.as_deref().unwrap_or_default())?;
    let query = SessionQuery { owner: caller.0, after, most: limit + 1 };
    let mut found = Vec::new();
    for model in state.services.language.models() {
        let sessions = model.engine().sessions(query.clone()).await?;
        let now = unix_seconds();
        found.extend(sessions.into_iter().map(|reading| session(model.name(), reading, now)));
    }
    found.sort_by(|one, other| (&one.id, &one.model).cmp(&(&other.id, &other.model)));
    Ok(Json(first_page(found, limit)))
}

/// Ends a session.
///
/// Its pages have the default priority from now on: they may still be found, and leave as others
/// do. Pages that another session has too stay as they are.
#[utoipa::path(delete, path = "/v1/sessions/{id}", tag = "Service", operation_id = "deleteSession",
    params(("id" = String, Path, description = "as requests gave it")),
    responses((status = 200, description = "it is over", body = DeletedSession), UnknownSession))]
pub async fn delete(
    State(state): State<Arc<AppState>>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
) -> JsonReply<DeletedSession> {
    let not_text = |_| ApiError::invalid("id", "the session's id in the path is not UTF-8");
    let Path(id) = id.map_err(not_text)?;
    let key = SessionKey { owner: caller.0, id };
    let mut deleted = false;
    for model in state.services.language.models() {
        deleted |= model.engine().end_session(key.clone()).await?;
    }
    let id = key.id;
    if deleted {
        return Ok(Json(DeletedSession { id, object: "kv_cache.session", deleted }));
    }
    let message = format!(
        "no session {id:?} of this key is here: it has not begun, is over or was deleted; \
         GET /v1/sessions lists them"
    );
    let error = ApiError::unknown_route(StatusCode::NOT_FOUND, message);
    Err(error.with_code("session_not_found"))
}

#[derive(Debug, PartialEq, Eq)]
struct SessionPage {
    limit: usize,
    after: Option<String>,
}

impl SessionPage {
    fn read(query: &str) -> ApiResult<Self> {
        let mut page = SessionPage { limit: DEFAULT_SESSIONS, after: None };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match name.as_ref() {
                "limit" => {
                    let number = value.as_ref();
                    let limit = number.parse().ok();
                    let limit = limit.filter(|limit| (1..=MAX_SESSIONS).contains(limit));
                    page.limit = limit.ok_or_else(|| {
                        let message =
                            format!("limit is {number:?}: it must be from 1 to {MAX_SESSIONS}");
                        ApiError::invalid("limit", message)
                    })?;
                }
                "after" => page.after = Some(value.into_owned()),
                name => {
                    let message = format!("the parameter {name:?} is not known");
                    return Err(ApiError::invalid(name, message));
                }
            }
        }
        Ok(page)
    }
}

fn session(model: &str, reading: SessionReading, now: u64) -> Session {
    let ago = |ms: u64| now.saturating_sub(ms / 1000);
    let pages = reading.pages;
    Session {
        id: reading.id,
        object: "kv_cache.session",
        model: model.to_owned(),
        tokens: reading.tokens,
        pages: PagesByTier {
            device: pages.device,
            host: pages.host,
            lower: pages.lower,
            absent: pages.absent,
        },
        requests: reading.requests,
        created: ago(reading.created_ms_ago),
        last_used: ago(reading.used_ms_ago),
        expires_at: now.saturating_add(reading.expires_in_ms.div_ceil(1000)),
        priority: reading.priority,
    }
}

/// The first `limit`, and what has the last one's id in another model: the next page begins after
/// that id.
fn first_page(mut found: Vec<Session>, limit: usize) -> SessionList {
    let mut end = found.len().min(limit);
    while end < found.len() && found[end].id == found[end - 1].id {
        end += 1;
    }
    let has_more = end < found.len();
    found.truncate(end);
    SessionList { object: "list", data: found, has_more }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_asked_for_by_limit_and_id() {
        let page = |limit, after: Option<&str>| SessionPage { limit, after: after.map(Into::into) };
        assert_eq!(SessionPage::read(""), Ok(page(100, None)));
        assert_eq!(SessionPage::read("limit=2&after=a%20b%2F"), Ok(page(2, Some("a b/"))));
        for (query, param) in [("limit=0", "limit"), ("limit=1001", "limit"), ("owner=1", "owner")]
        {
            SessionPage::read(query).unwrap_err().check_says(param, param);
        }
    }

    #[test]
    fn a_page_ends_between_two_ids() {
        let session = |id: &str, model: &str| {
            let reading = SessionReading {
                id: id.to_owned(),
                tokens: 1,
                pages: terrace_engine::SessionPages::default(),
                requests: 1,
                priority: 60,
                created_ms_ago: 5_000,
                used_ms_ago: 2_000,
                expires_in_ms: 1,
            };
            session(model, reading, 100)
        };
        let found = || vec![session("a", "one"), session("b", "one"), session("b", "two")];
        let ids = |limit| {
            let page = first_page(found(), limit);
            let ids: Vec<_> = page.data.iter().map(|session| session.id.clone()).collect();
            (ids.concat(), page.has_more)
        };
        assert_eq!(ids(1), ("a".to_owned(), true));
        assert_eq!(ids(2), ("abb".to_owned(), false));
        let first = &found()[0];
        assert_eq!((first.created, first.last_used, first.expires_at), (95, 98, 101));
    }
}
