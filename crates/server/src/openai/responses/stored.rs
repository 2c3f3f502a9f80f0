//! `GET` and `DELETE /v1/responses/{id}`, `GET /v1/responses/{id}/input_items`

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;

use crate::api_error::{ApiError, ApiResult, JsonReply, Reply};
use crate::app_state::AppState;
use crate::docs::{UnknownParameter, UnknownResponse};
use crate::middleware::Caller;
use crate::openai::responses::item::Item;
use crate::openai::responses::response_shape::{DeletedResponse, ItemList, ResponseShape};
use crate::openai::responses::response_store::{FORGETS, StoredResponse};

/// OpenAI's limit and default of a page of items.
const MAX_ITEMS: usize = 100;
const DEFAULT_ITEMS: usize = 20;

/// A request about the response whose id is in the path.
pub struct StoredRequest {
    state: Arc<AppState>,
    caller: Caller,
    id: String,
    query: String,
}

impl FromRequestParts<Arc<AppState>> for StoredRequest {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<AppState>) -> ApiResult<Self> {
        let not_text = |_| ApiError::invalid("id", "the response's id in the path is not UTF-8");
        let Path(id) = Path::from_request_parts(parts, state).await.map_err(not_text)?;
        let caller = parts.extensions.get::<Caller>().expect("every request that passes has one");
        let query = parts.uri.query().unwrap_or_default().to_owned();
        Ok(Self { state: Arc::clone(state), caller: *caller, id, query })
    }
}

impl StoredRequest {
    fn find(&self) -> ApiResult<Arc<StoredResponse>> {
        self.state.responses.get(self.caller, &self.id).ok_or_else(|| self.unknown())
    }

    fn unknown(&self) -> ApiError {
        let message = format!("no response {:?} is stored here; {FORGETS}", self.id);
        ApiError::unknown_route(StatusCode::NOT_FOUND, message)
    }
}

/// A stored response.
#[utoipa::path(get, path = "/v1/responses/{id}", tag = "OpenAI", operation_id = "getResponse",
    params(("id" = String, Path, description = "the response's id")),
    responses((status = 200, description = "the response as it was sent", body = ResponseShape),
        UnknownParameter, UnknownResponse))]
pub async fn retrieve(request: StoredRequest) -> Reply {
    for (name, value) in parameters(&request.query) {
        match (name, value) {
            ("stream", "false") | ("include_obfuscation" | "starting_after", _) => {}
            (name, _) if is_include(name) => {}
            ("stream", _) => {
                let message = "stream: a stored response is not streamed again";
                return Err(ApiError::invalid("stream", message));
            }
            (name, _) => return Err(unknown_parameter(name)),
        }
    }
    let kind = (header::CONTENT_TYPE, "application/json");
    Ok(([kind], request.find()?.json.clone()).into_response())
}

/// Forgets a stored response.
#[utoipa::path(delete, path = "/v1/responses/{id}", tag = "OpenAI", operation_id = "deleteResponse",
    params(("id" = String, Path, description = "the response's id")),
    responses((status = 200, description = "it is forgotten", body = DeletedResponse),
        UnknownResponse))]
pub async fn delete(request: StoredRequest) -> JsonReply<DeletedResponse> {
    match request.state.responses.remove(request.caller, &request.id) {
        true => Ok(Json(DeletedResponse { id: request.id, object: "response", deleted: true })),
        false => Err(request.unknown()),
    }
}

/// What a stored response went on from: all items of its conversation before its output.
#[utoipa::path(get, path = "/v1/responses/{id}/input_items", tag = "OpenAI",
    operation_id = "listInputItems",
    params(("id" = String, Path, description = "the response's id"),
        ("limit" = Option<usize>, Query, description = "items of a page, 1 to 100; default 20"),
        ("order" = Option<String>, Query, description = "`asc`, or `desc`: the newest first"),
        ("after" = Option<String>, Query, description = "the last item of the page before")),
    responses((status = 200, description = "a page of items", body = ItemList<'_>),
        UnknownParameter, UnknownResponse))]
pub async fn list_input_items(request: StoredRequest) -> Reply {
    let page = ItemPage::read(&request.query)?;
    let stored = request.find()?;
    let items = page.of(&stored.items[..stored.input])?;
    Ok(Json(items).into_response())
}

#[derive(Debug, PartialEq, Eq)]
struct ItemPage<'a> {
    limit: usize,
    is_ascending: bool,
    after: Option<&'a str>,
}

impl<'a> ItemPage<'a> {
    fn read(query: &'a str) -> ApiResult<Self> {
        let mut page = ItemPage { limit: DEFAULT_ITEMS, is_ascending: false, after: None };
        for (name, value) in parameters(query) {
            match (name, value) {
                ("order", "asc") => page.is_ascending = true,
                ("order", "desc") => page.is_ascending = false,
                ("order", other) => {
                    let message = format!("order is {other:?}: it must be asc or desc");
                    return Err(ApiError::invalid("order", message));
                }
                ("after", id) => page.after = Some(id),
                ("limit", number) => {
                    let limit = number.parse().ok().filter(|limit| (1..=MAX_ITEMS).contains(limit));
                    page.limit = limit.ok_or_else(|| {
                        let message =
                            format!("limit is {number:?}: it must be from 1 to {MAX_ITEMS}");
                        ApiError::invalid("limit", message)
                    })?;
                }
                (name, _) if is_include(name) => {}
                (name, _) => return Err(unknown_parameter(name)),
            }
        }
        Ok(page)
    }

    fn of<'i>(&self, items: &'i [Item]) -> ApiResult<ItemList<'i>> {
        let mut ordered: Vec<&Item> = items.iter().collect();
        if !self.is_ascending {
            ordered.reverse();
        }
        let start = match self.after {
            None => 0,
            Some(id) => {
                let index = ordered.iter().position(|item| item.id() == id);
                let message = || format!("after: no item {id:?} is among the input");
                index.ok_or_else(|| ApiError::invalid("after", message()))? + 1
            }
        };
        let end = ordered.len().min(start + self.limit);
        Ok(ItemList::new(ordered[start..end].to_vec(), end < ordered.len()))
    }
}

/// The names and values of a query; none of those we know needs to be escaped.
fn parameters(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// A list may be written as `include`, `include[]` or `include%5B%5D`. What it could ask for is in
/// the response already, if it was requested when the response was made.
fn is_include(name: &str) -> bool {
    matches!(name, "include" | "include[]" | "include%5B%5D")
}

fn unknown_parameter(name: &str) -> ApiError {
    ApiError::invalid(name, format!("the parameter {name:?} is not known"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items() -> Vec<Item> {
        (1..=5).map(|n| Item::user(format!("msg_{n}"), n.to_string())).collect()
    }

    #[track_caller]
    fn check(query: &str, want: &[&str], has_more: bool) {
        let items = items();
        let list = ItemPage::read(query).unwrap().of(&items).unwrap();
        let ids: Vec<_> = list.data.iter().map(|item| item.id()).collect();
        assert_eq!((ids.as_slice(), list.has_more), (want, has_more), "{query}");
        assert_eq!((list.first_id, list.last_id), (want.first().copied(), want.last().copied()));
    }

    #[test]
    fn items_come_in_pages() {
        check("", &["msg_5", "msg_4", "msg_3", "msg_2", "msg_1"], false);
        check("order=asc&limit=2", &["msg_1", "msg_2"], true);
        check("order=asc&limit=2&after=msg_2", &["msg_3", "msg_4"], true);
        check("limit=2&after=msg_2&include%5B%5D=x", &["msg_1"], false);
        check("after=msg_1", &[], false);
    }

    #[test]
    fn a_page_that_cannot_be_is_refused() {
        for query in ["limit=0", "limit=101", "limit=x", "order=up", "page=2"] {
            assert!(ItemPage::read(query).is_err(), "{query}");
        }
        assert!(ItemPage::read("after=msg_9").unwrap().of(&items()).is_err());
    }
}
