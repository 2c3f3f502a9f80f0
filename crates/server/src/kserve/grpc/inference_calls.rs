//! `ModelInfer` and `ModelStreamInfer`

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use prost::Message;
use tonic::{Response, Status, Streaming};

use super::call::Call;
use super::infer_message::{read_request, response};
use crate::api_error::{ApiError, ApiResult};
use crate::app_state::AppState;
use crate::bounded_work::{off_thread_if_large, within_time};
use crate::kserve::infer_error::InferError;
use crate::kserve::inference::infer;
use crate::kserve::messages::{ModelInferRequest, ModelInferResponse, ModelStreamInferResponse};
use crate::kserve::parameter::Parameter;

/// Held until the response has been sent; `replies` puts it there.
#[derive(Clone)]
pub struct HeldReply(#[expect(dead_code, reason = "it is only held")] Arc<dyn Any + Send + Sync>);

pub type InferStream = BoxStream<'static, Result<ModelStreamInferResponse, Status>>;

pub async fn infer_once(
    state: &AppState,
    call: &Call,
    message: ModelInferRequest,
) -> Result<Response<ModelInferResponse>, Status> {
    let inferred = infer_message(state, call, message).await;
    let (message, held) = inferred.map_err(|error| status_of(&error))?;
    let mut response = Response::new(message);
    if let Some(held) = held {
        response.extensions_mut().insert(held);
    }
    Ok(response)
}

/// Each request is answered before the next is read. Where one fails its response says so, and the
/// others are answered; or the stream ends with it, if `ends_at_error`.
pub fn infer_stream(
    state: Arc<AppState>,
    call: Call,
    messages: Streaming<ModelInferRequest>,
    ends_at_error: bool,
) -> InferStream {
    let responses = stream::unfold(Some(messages), move |messages| {
        let (state, call) = (Arc::clone(&state), call.clone());
        async move {
            let mut messages = messages?;
            let response = match messages.message().await {
                Ok(None) => return None,
                Ok(Some(message)) => streamed(&state, &call, message, ends_at_error).await,
                Err(status) => Err(status),
            };
            // tonic goes on after an error, and would send what follows it.
            let is_over = response.is_err();
            Some((response, Some(messages).filter(|_| !is_over)))
        }
    });
    responses.boxed()
}

async fn streamed(
    state: &AppState,
    call: &Call,
    message: ModelInferRequest,
    ends_at_error: bool,
) -> Result<ModelStreamInferResponse, Status> {
    let (model, id) = (message.model_name.clone(), message.id.clone());
    match infer_message(state, call, message).await {
        // What is held ends here: gRPC keeps a few responses of a stream at most.
        Ok((message, _)) => Ok(final_response(message)),
        Err(error) if ends_at_error => Err(status_of(&error)),
        Err(error) => Ok(failed(model, id, &error)),
    }
}

fn status_of(error: &ApiError) -> Status {
    InferError::from(error).into()
}

async fn infer_message(
    state: &AppState,
    call: &Call,
    mut message: ModelInferRequest,
) -> ApiResult<(ModelInferResponse, Option<HeldReply>)> {
    let started = Instant::now();
    let model = std::mem::take(&mut message.model_name);
    let version = std::mem::take(&mut message.model_version);
    call.log.set_model(&model);
    let _held = state.memory.for_prompt(message.encoded_len()).await?;
    let mut request = read_request(message)?;
    request.tenant.clone_from(&call.tenant);
    let inferring =
        async { Ok(infer(&state.services.inference, &model, &version, request).await?) };
    let mut inferred = within_time(state, started, inferring).await?;
    let held = inferred.outputs.held.take().map(|held| HeldReply(held.into()));
    let bytes = inferred.outputs.tensors.iter().map(|tensor| tensor.data().raw_len()).sum();
    let message = off_thread_if_large(bytes, move || Ok(response(inferred))).await?;
    Ok((message, held))
}

/// Each request has one response, which is its last.
fn final_response(mut message: ModelInferResponse) -> ModelStreamInferResponse {
    let is_last = Parameter::Bool(true).into_message();
    message.parameters.insert("triton_final_response".to_owned(), is_last);
    ModelStreamInferResponse { infer_response: Some(message), ..Default::default() }
}

/// Says whose failure it is.
fn failed(model_name: String, id: String, error: &ApiError) -> ModelStreamInferResponse {
    let message = ModelInferResponse { model_name, id, ..ModelInferResponse::default() };
    ModelStreamInferResponse {
        error_message: error.message().to_owned(),
        ..final_response(message)
    }
}
