//! `GET /v1/kv_cache/handles`, and `GET`, `POST` and `DELETE /v1/kv_cache/handles/{handle}`

use std::slice;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::{Extension, Json};
use terrace_engine::{Error as EngineError, HandleSummary};

use super::handle_request::take_ttl;
use super::handle_shape::{DeletedHandle, HandleList, HandleShape};
use crate::api_error::{ApiError, ApiResult, JsonReply};
use crate::app_state::AppState;
use crate::docs::{HandleChanges, HandleRefusals, Refusals, UnknownHandle};
use crate::fields::Fields;
use crate::language::{ServedModel, take_model};
use crate::middleware::Caller;

/// A request about the handle whose name or id is in the path.
pub struct StoredHandle {
    state: Arc<AppState>,
    owner: Option<String>,
    handle: String,
}

impl FromRequestParts<Arc<AppState>> for StoredHandle {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<AppState>) -> ApiResult<Self> {
        let not_text = |_| ApiError::invalid("handle", "the handle in the path is not UTF-8");
        let Path(handle) = Path::from_request_parts(parts, state).await.map_err(not_text)?;
        let caller = parts.extensions.get::<Caller>().expect("every request that passes has one");
        let owner = caller.owner(&state.config.api_keys);
        Ok(Self { state: Arc::clone(state), owner, handle })
    }
}

impl StoredHandle {
    /// The handle and its model: the one of that name, or whichever has it.
    pub fn find(&self, model: Option<&str>) -> ApiResult<(Arc<ServedModel>, HandleSummary)> {
        let language = &self.state.services.language;
        let named = model.map(|name| language.model(Some(name))).transpose()?;
        let models = named.as_ref().map_or(language.models(), slice::from_ref);
        let mut found = Vec::new();
        for model in models {
            match model.engine().kv_handles().get(&self.handle, self.owner.as_deref()) {
                Ok(handle) => found.push((Arc::clone(model), handle)),
                Err(EngineError::NoSuchHandle { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match (found.pop(), found.pop()) {
            (Some(found), None) => Ok(found),
            (None, _) => Err(ApiError::unknown_handle(&self.handle)),
            (Some((first, a)), Some((second, b))) => {
                let message = format!(
                    "{:?} is a handle of {} (id {}) and of {} (id {}); name it by its id",
                    self.handle,
                    second.name(),
                    b.id,
                    first.name(),
                    a.id
                );
                Err(ApiError::conflict("ambiguous_handle", message))
            }
        }
    }
}

/// The caller's handles.
#[utoipa::path(get, path = "/v1/kv_cache/handles", tag = "KV cache", operation_id = "listHandles",
    responses((status = 200, description = "of all models, the oldest first", body = HandleList)))]
pub async fn list(
    State(state): State<Arc<AppState>>,
    Extension(caller): Extension<Caller>,
) -> Json<HandleList> {
    let owner = caller.owner(&state.config.api_keys);
    let of_model = |model: &Arc<ServedModel>| {
        let handles = model.engine().kv_handles().list(owner.as_deref());
        let name = model.name().to_owned();
        handles.into_iter().map(move |handle| HandleShape::new(&name, handle))
    };
    let mut data: Vec<_> = state.services.language.models().iter().flat_map(of_model).collect();
    data.sort_by_key(|handle| handle.created);
    Json(HandleList { object: "list", data })
}

/// One handle.
#[utoipa::path(get, path = "/v1/kv_cache/handles/{handle}", tag = "KV cache",
    operation_id = "getHandle",
    params(("handle" = String, Path, description = "its id or name")),
    responses((status = 200, description = "the handle", body = HandleShape), UnknownHandle))]
pub async fn show(request: StoredHandle) -> JsonReply<HandleShape> {
    let (model, handle) = request.find(None)?;
    Ok(Json(HandleShape::new(model.name(), handle)))
}

/// Pins or unpins a handle, renames it, or sets when it is deleted.
///
/// They are done in this order; where one is refused, those before it stay.
#[utoipa::path(post, path = "/v1/kv_cache/handles/{handle}", tag = "KV cache",
    operation_id = "changeHandle", request_body = HandleChanges,
    params(("handle" = String, Path, description = "its id or name")),
    responses(Refusals, HandleRefusals,
        (status = 200, description = "the handle as it is now", body = HandleShape)))]
pub async fn change(request: StoredHandle, mut fields: Fields) -> JsonReply<HandleShape> {
    let model = take_model(&mut fields)?;
    let pinned: Option<bool> = fields.take("pinned")?;
    let name: Option<String> = fields.take("name")?;
    let has_ttl = fields.kind_of("ttl").is_some();
    let ttl = take_ttl(&mut fields)?;
    fields.finish()?;
    if pinned.is_none() && name.is_none() && !has_ttl {
        let message = "nothing is to be changed; give pinned, name or ttl";
        return Err(ApiError::invalid("pinned", message));
    }
    let (model, mut handle) = request.find(model.as_deref())?;
    let handles = model.engine().kv_handles();
    if let Some(is_pinned) = pinned {
        handle = handles.set_pinned(handle.id, is_pinned).await?;
    }
    if let Some(name) = &name {
        handle = handles.rename(handle.id, name).await?;
    }
    if has_ttl {
        handle = handles.set_ttl(handle.id, ttl).await?;
    }
    Ok(Json(HandleShape::new(model.name(), handle)))
}

/// Deletes a handle. Requests that go on from it finish.
#[utoipa::path(delete, path = "/v1/kv_cache/handles/{handle}", tag = "KV cache",
    operation_id = "deleteHandle",
    params(("handle" = String, Path, description = "its id or name")),
    responses((status = 200, description = "it is gone", body = DeletedHandle), UnknownHandle))]
pub async fn delete(request: StoredHandle) -> JsonReply<DeletedHandle> {
    let (model, handle) = request.find(None)?;
    model.engine().kv_handles().remove(handle.id).await?;
    Ok(Json(DeletedHandle::new(handle.id.to_string())))
}
