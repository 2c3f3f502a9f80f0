//! `POST /v1/responses`

use axum::Extension;

use crate::api_error::{ApiError, Reply};
use crate::chat::{ChatRequest, Conversation};
use crate::docs::{Refusals, ResponsesBody};
use crate::fields::JsonRequest;
use crate::language::{RouteDefaults, sse};
use crate::middleware::Caller;
use crate::openai::responses::context::Context;
use crate::openai::responses::response_frames::{ResponseFrames, ResponseKeeper, whole};
use crate::openai::responses::response_request::ResponseRequest;
use crate::openai::responses::response_shape::ResponseShape;
use crate::openai::responses::response_writer::ResponseWriter;
use crate::openai::responses::stream_event::StreamEvent;
use crate::openai::responses::transcript;

/// Answers an input: a text, or items of a conversation.
#[utoipa::path(post, path = "/v1/responses", tag = "OpenAI", operation_id = "createResponse",
    request_body = ResponsesBody, responses(Refusals, (status = 200,
        description = "the response; streamed, the events of its making",
        content((ResponseShape = "application/json"), (StreamEvent = "text/event-stream")))))]
pub async fn create(
    Extension(caller): Extension<Caller>,
    JsonRequest { state, log, fields }: JsonRequest,
) -> Reply {
    let request = ResponseRequest::take(fields)?;
    let ResponseRequest { input, render, offer, options, echo, is_streamed } = request;
    let (previous, limits) = (echo.previous_response_id.as_deref(), &state.config.limits);
    let context = Context::gather(&state.responses, caller, previous, input, limits.body_bytes)?;
    let messages = transcript::messages(echo.instructions.as_deref(), &context.items);
    // What every complaint about the conversation is about here.
    let in_clients_words = |error: ApiError| error.about("messages", "input");
    let conversation = Conversation::new(messages).map_err(in_clients_words)?;

    let wants_logprobs = options.generation.logprobs.is_some();
    let returns_token_ids = options.returns_token_ids;
    let chat = ChatRequest { conversation, render, offer, options };
    let outputs = chat.start(&state, log, RouteDefaults::openai_chat()).await;
    let outputs = outputs.map_err(|error| in_clients_words(error).about("prompt", "input"))?;

    let mut response = ResponseShape::begin(outputs.model().name(), echo);
    outputs.sent_as(&response.id);
    response.warnings = outputs.warnings().to_vec();
    response.kv_cache = outputs.used_handle().cloned();
    if returns_token_ids {
        response.prompt_token_ids = Some(outputs.prompt_tokens().to_vec());
        response.output_token_ids = Some(Vec::new());
    }
    let names = wants_logprobs.then(|| outputs.model().token_names());
    let writer = ResponseWriter::new(response, names);
    let keeper = ResponseKeeper { state, caller, context };
    match is_streamed {
        false => whole(writer, keeper, outputs).await,
        true => Ok(sse::respond(outputs, ResponseFrames::new(writer, keeper))),
    }
}
