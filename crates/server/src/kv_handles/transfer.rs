//! `GET /v1/kv_cache/handles/{handle}/export` and `POST /v1/kv_cache/handles/import`

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::body_pipe::{BodyReader, body_pipe};
use super::handle_shape::HandleShape;
use super::stored::StoredHandle;
use crate::api_error::{ApiError, ApiResult, ErrorShape, Reply};
use crate::app_state::AppState;
use crate::bounded_work::off_thread;
use crate::docs::{HandleRefusals, UnknownHandle};
use crate::language::ServedModel;
use crate::middleware::Caller;

const FILE_TYPE: &str = "application/octet-stream";

/// A handle as a file, for another server.
///
/// It has the prompt's token ids and all that the model has computed of them, and not its owner.
#[utoipa::path(get, path = "/v1/kv_cache/handles/{handle}/export", tag = "KV cache",
    operation_id = "exportHandle",
    params(("handle" = String, Path, description = "its id or name")),
    responses((status = 200, description = "the file", body = Vec<u8>, content_type = FILE_TYPE),
        UnknownHandle,
        (status = 409, description = "the server has no disk tier", body = ErrorShape<'_>)))]
pub async fn export(request: StoredHandle) -> Reply {
    let (model, handle) = request.find(None)?;
    let (mut writer, written) = body_pipe();
    let writing =
        off_thread(move || match model.engine().kv_handles().export(handle.id, &mut writer) {
            Ok(_) => {
                // A client that has left does not mind.
                let _ = writer.finish();
                Ok(())
            }
            Err(error) => {
                let error = ApiError::from(error);
                writer.fail(error.message().to_owned());
                Err(error)
            }
        });
    let writing = tokio::spawn(writing);
    let Some(body) = written.begun().await else {
        // It failed before it wrote anything, so the client can be given the reason.
        return match writing.await {
            Ok(Err(error)) => Err(error),
            _ => Err(ApiError::internal("the handle could not be exported")),
        };
    };
    let file = format!("attachment; filename=\"{}.kv\"", file_name(&handle.name));
    let headers =
        [(header::CONTENT_TYPE, FILE_TYPE.to_owned()), (header::CONTENT_DISPOSITION, file)];
    Ok((headers, body).into_response())
}

/// What is left of a name that every file system and header takes.
fn file_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.chars().map(|c| if plain(c) { c } else { '_' }).collect()
}

/// Takes a handle that another server has exported.
///
/// The body is stored as it comes and checked before it counts. Its size is bounded by what the
/// disk tier's budget has left, not by the limit of other bodies.
#[utoipa::path(post, path = "/v1/kv_cache/handles/import", tag = "KV cache",
    operation_id = "importHandle",
    request_body(content = Vec<u8>, content_type = FILE_TYPE,
        description = "what `export` gave"),
    params(("name" = Option<String>, Query, description = "its name; left out, the one it had"),
        ("model" = Option<String>, Query, description = "where the server has several")),
    responses(HandleRefusals,
        (status = 201, description = "the handle", body = HandleShape),
        (status = 400, description = "the body is no handle, or damaged", body = ErrorShape<'_>)))]
pub async fn import(State(state): State<Arc<AppState>>, request: Request) -> Reply {
    let ImportQuery { name, model } = ImportQuery::read(request.uri().query().unwrap_or_default())?;
    let model = state.services.language.model(model.as_deref())?;
    let caller = request.extensions().get::<Caller>().expect("every request that passes has one");
    let owner = caller.owner(&state.config.api_keys);
    let body = BodyReader::new(request.into_body(), state.config.limits.idle_time);
    off_thread(move || imported(&model, body, owner.as_deref(), name.as_deref())).await
}

fn imported(
    model: &ServedModel,
    mut body: BodyReader,
    owner: Option<&str>,
    name: Option<&str>,
) -> ApiResult<Response> {
    let handle = model.engine().kv_handles().import(&mut body, owner, name);
    let handle = handle.inspect_err(|_| body.drain())?;
    let shape = HandleShape::new(model.name(), handle);
    Ok((StatusCode::CREATED, Json(shape)).into_response())
}

#[derive(Debug, Default, PartialEq, Eq)]
struct ImportQuery {
    name: Option<String>,
    model: Option<String>,
}

impl ImportQuery {
    fn read(query: &str) -> ApiResult<Self> {
        let mut read = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = Some(value.into_owned()).filter(|value| !value.is_empty());
            match &*name {
                "name" => read.name = value,
                "model" => read.model = value,
                other => {
                    let message = format!("unknown parameter {other:?}; name and model are known");
                    return Err(ApiError::invalid(other, message));
                }
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_models_come_in_the_query() {
        let name = Some("a b".to_owned());
        let read = ImportQuery::read("name=a%20b&model=").unwrap();
        assert_eq!(read, ImportQuery { name, model: None });
        ImportQuery::read("ttl=3").unwrap_err().check_says("ttl", "name and model are known");
    }

    #[test]
    fn a_file_is_named_after_its_handle() {
        assert_eq!(file_name("my \"doc\"/é.v1"), "my__doc___.v1");
    }
}
