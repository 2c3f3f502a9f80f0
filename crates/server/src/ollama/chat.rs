//! `POST /api/chat`

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Map, Value};
use terrace_engine::guidance::Grammar;
use terrace_model::RenderOptions;

use crate::api_error::ApiError;
use crate::chat::ChatRequest;
use crate::conversation::Conversation;
use crate::docs::{OllamaChatBody, OllamaRefusals};
use crate::fields::Fields;
use crate::logging::RequestLog;
use crate::ollama::line_shape::ChatLine;
use crate::ollama::line_writer::{Form, LineWriter, loaded};
use crate::ollama::messages::converted;
use crate::ollama::model_name;
use crate::ollama::request_fields::{Stay, Think, refuse_shortening, take_format, take_stream};
use crate::ollama::sampling_options::{SamplingOptions, in_clients_words};
use crate::openai::chat::take_logprobs;
use crate::options::RouteDefaults;
use crate::state::AppState;
use crate::tools::ToolOffer;

/// Continues a conversation, as Ollama does.
#[utoipa::path(
    post, path = "/api/chat", tag = "Ollama", operation_id = "ollamaChat",
    request_body = OllamaChatBody,
    responses(
        (status = 200, description = "the answer; streamed, a line for each piece of it", content(
            (ChatLine = "application/json"), (ChatLine = "application/x-ndjson")
        )),
        OllamaRefusals
    )
)]
pub async fn create(
    State(state): State<Arc<AppState>>,
    Extension(log): Extension<Arc<RequestLog>>,
    fields: Fields,
) -> Result<Response, ApiError> {
    let request = ChatFields::take(fields)?;
    let model = model_name::find(&state, request.model.as_deref())?;
    let name = request.model.unwrap_or_else(|| model.name().to_owned());
    let Some(conversation) = request.conversation else {
        request.stay.check()?;
        return Ok(loaded(Form::Chat, &name));
    };
    request.sampling.check_context(&model)?;
    request.think.check(&model)?;
    let mut render = RenderOptions::next_message();
    request.think.apply(&mut render);
    let options = request.sampling.request(&model, request.format, request.logprobs);
    let chat = ChatRequest { conversation, render, offer: request.offer, options };
    let started = log.started;
    let outputs = chat.start(&state, log, RouteDefaults::ollama()).await;
    let outputs = outputs.map_err(in_clients_words)?;
    let names = request.logprobs.map(|_| model.token_names());
    LineWriter::new(Form::Chat, name, names, started).respond(outputs, request.stream).await
}

#[derive(Debug)]
struct ChatFields {
    model: Option<String>,
    /// `None` where nothing is said: then only the model is asked for.
    conversation: Option<Conversation>,
    offer: Option<ToolOffer>,
    format: Option<Grammar>,
    sampling: SamplingOptions,
    logprobs: Option<usize>,
    think: Think,
    stream: bool,
    stay: Stay,
}

impl ChatFields {
    fn take(mut fields: Fields) -> Result<Self, ApiError> {
        let model = model_name::take_name(&mut fields, &["model"])?;
        let messages = fields.take::<Vec<Map<String, Value>>>("messages")?.unwrap_or_default();
        let conversation = match messages.is_empty() {
            true => None,
            false => Some(Conversation::new(converted(messages)?)?),
        };
        let tools = fields.take::<Vec<Value>>("tools")?.unwrap_or_default();
        let request = Self {
            model,
            conversation,
            offer: ToolOffer::new(tools, None, true)?,
            format: take_format(&mut fields)?,
            sampling: SamplingOptions::take(&mut fields)?,
            logprobs: take_logprobs(&mut fields)?,
            think: Think::take(&mut fields)?,
            stream: take_stream(&mut fields)?,
            stay: Stay::take(&mut fields)?,
        };
        refuse_shortening(&mut fields)?;
        fields.finish()?;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn take(body: Value) -> Result<ChatFields, ApiError> {
        ChatFields::take(Fields::parse(body.to_string().as_bytes())?)
    }

    #[test]
    fn answers_are_streamed_unless_the_request_says_otherwise() {
        let hello = json!({"messages": [{"role": "user", "content": "hi"}]});
        let plain = take(hello.clone()).unwrap();
        assert!(plain.stream && plain.conversation.is_some() && plain.think == Think::Unsaid);
        let mut whole = hello;
        whole["stream"] = json!(false);
        assert!(!take(whole).unwrap().stream);
    }

    #[test]
    fn nothing_said_asks_for_the_model_alone() {
        assert!(take(json!({"model": "m"})).unwrap().conversation.is_none());
        let empty = take(json!({"model": "m", "messages": [], "keep_alive": 0})).unwrap();
        assert!(empty.conversation.is_none() && empty.stay.check().is_err());
    }

    #[test]
    fn what_cannot_be_honoured_is_refused() {
        let check = |name: &str, value: Value, want: &str| {
            let error = take(json!({"messages": [], name: value})).unwrap_err();
            assert!(error.message().starts_with(want), "{}", error.message());
        };
        check("truncate", json!(true), "truncate is not supported");
        check("shift", json!(true), "shift is not supported");
        check("template", json!("x"), "unknown field \"template\"");
        check("top_logprobs", json!(3), "top_logprobs needs");
        assert!(take(json!({"truncate": false, "shift": false, "keep_alive": "5m"})).is_ok());
    }
}
