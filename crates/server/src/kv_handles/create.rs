//! `POST /v1/kv_cache/handles`

use std::sync::Arc;

use axum::Json;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use terrace_engine::text::Prompt;
use terrace_engine::{Error as EngineError, HandleLabels, HandlePrompt};

use super::handle_request::{HandleRequest, Source};
use super::handle_shape::HandleShape;
use crate::api_error::{ApiError, ApiResult, Reply};
use crate::app_state::AppState;
use crate::bounded_work::{off_thread, within_limits};
use crate::chat::rendered_prompt;
use crate::docs::{HandleBody, HandleRefusals, Refusals};
use crate::fields::JsonRequest;
use crate::language::ServedModel;
use crate::middleware::Caller;

/// Keeps a KV cache by name: of a prompt, of messages, or of a response that this server has given.
///
/// What is not known yet is computed. The response comes when the bytes are durable. A handle of
/// the same name is replaced.
#[utoipa::path(post, path = "/v1/kv_cache/handles", tag = "KV cache",
    operation_id = "createHandle", request_body = HandleBody,
    responses(Refusals, HandleRefusals,
        (status = 201, description = "the handle", body = HandleShape)))]
pub async fn create(JsonRequest { state, log, fields }: JsonRequest) -> Reply {
    let caller = fields.caller;
    let request = HandleRequest::take(fields)?;
    let model = model_of(&state, &request, caller)?;
    log.set_model(model.name());
    let owner = caller.owner(&state.config.api_keys);
    let labels = HandleLabels { owner, ..request.labels.clone() };
    let made = within_limits(&state, &log, make(&state, &model, request, caller, labels)).await?;
    Ok((StatusCode::CREATED, Json(made)).into_response())
}

async fn make(
    state: &AppState,
    model: &Arc<ServedModel>,
    request: HandleRequest,
    caller: Caller,
    labels: HandleLabels,
) -> ApiResult<HandleShape> {
    let HandleRequest { source, kv_cache, cache_salt, priority, .. } = request;
    let handles = model.engine().kv_handles();
    let prompt = match source {
        Source::Prompt(prompt) => prompt,
        Source::Conversation(conversation, render) => {
            Prompt::Rendered(rendered_prompt(state, model, conversation, render).await?)
        }
        Source::Response(id) => {
            let recent = state.recent.get(&id, caller).ok_or_else(|| unknown_response(&id))?;
            let made = handles.create_from_request(recent.request, labels).await;
            let made = made.map_err(|error| match error {
                EngineError::NoRecentResponse { .. } => unknown_response(&id),
                other => other.into(),
            });
            return Ok(HandleShape::new(model.name(), made?));
        }
    };
    model.engine().check_length(&prompt)?;
    let held = state.memory.for_prompt(prompt.text_bytes()).await?;
    let tokenizing = Arc::clone(model);
    let tokens = off_thread(move || {
        let _held = held;
        Ok(tokenizing.engine().tokenise(prompt)?)
    })
    .await?;
    let prompt = HandlePrompt { tokens, kv_cache, cache_salt, priority };
    let made = handles.create_from_tokens(prompt, labels).await?;
    Ok(HandleShape::new(model.name(), made))
}

/// The model that the request names; of a response, the one that gave it.
fn model_of(
    state: &AppState,
    request: &HandleRequest,
    caller: Caller,
) -> ApiResult<Arc<ServedModel>> {
    let language = &state.services.language;
    let Source::Response(id) = &request.source else {
        return language.model(request.model.as_deref());
    };
    if let Some(name) = &request.model {
        language.model(Some(name))?;
    }
    let found = state.recent.get(id, caller).ok_or_else(|| unknown_response(id))?;
    match &request.model {
        Some(name) if *name != found.model => {
            let message = format!("model is {name:?}, and response_id is of {:?}", found.model);
            Err(ApiError::invalid("model", message))
        }
        _ => language.model(Some(&found.model)),
    }
}

fn unknown_response(id: &str) -> ApiError {
    let message = format!(
        "response_id: no response {id:?} with one output is remembered here; the server knows the \
         newest 1,024 that it has given, until it stops"
    );
    let error = ApiError::unknown_route(StatusCode::NOT_FOUND, message);
    error.with_code("response_not_found")
}
