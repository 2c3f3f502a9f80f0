//! `POST /api/chat`

use axum::response::Response;
use serde_json::{Map, Value};
use terrace_model::RenderOptions;

use crate::api_error::ApiError;
use crate::chat::{ChatRequest, Conversation};
use crate::docs::{OllamaChatBody, OllamaRefusals};
use crate::fields::{Fields, JsonRequest};
use crate::language::RouteDefaults;
use crate::ollama::common_fields::CommonFields;
use crate::ollama::line_shape::ChatLine;
use crate::ollama::line_writer::{LineKind, loaded};
use crate::ollama::messages::converted;
use crate::tools::ToolOffer;

/// Continues a conversation, as Ollama does.
#[utoipa::path(
    post, path = "/api/chat", tag = "Ollama", operation_id = "ollamaChat",
    request_body = OllamaChatBody,
    responses(
        (status = 200, description = "the output; streamed, a line for each delta", content(
            (ChatLine = "application/json"), (ChatLine = "application/x-ndjson")
        )),
        OllamaRefusals
    )
)]
pub async fn create(JsonRequest { state, log, fields }: JsonRequest) -> Result<Response, ApiError> {
    let request = ChatFields::take(fields)?;
    let (model, name) = request.common.model(&state)?;
    let Some(conversation) = request.conversation else {
        request.common.stay.check()?;
        return Ok(loaded(LineKind::Chat, &name));
    };
    let options = request.common.options(&model)?;
    let mut render = RenderOptions::next_message();
    request.common.think.apply(&mut render);
    let chat = ChatRequest { conversation, render, offer: request.offer, options };
    let started = log.started;
    let outputs = chat.start(&state, log, RouteDefaults::ollama()).await;
    request.common.respond(LineKind::Chat, name, started, outputs).await
}

#[derive(Debug)]
struct ChatFields {
    common: CommonFields,
    /// `None` where nothing is said: then only the model is requested.
    conversation: Option<Conversation>,
    offer: Option<ToolOffer>,
}

impl ChatFields {
    fn take(mut fields: Fields) -> Result<Self, ApiError> {
        let messages = fields.take::<Vec<Map<String, Value>>>("messages")?.unwrap_or_default();
        let conversation = match messages.is_empty() {
            true => None,
            false => Some(Conversation::new(converted(messages)?)?),
        };
        let tools = fields.take::<Vec<Value>>("tools")?.unwrap_or_default();
        let request = Self {
            common: CommonFields::take(&mut fields)?,
            conversation,
            offer: ToolOffer::new(tools, None, true)?,
        };
        fields.finish()?;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ollama::request_fields::Think;

    fn take(body: Value) -> Result<ChatFields, ApiError> {
        ChatFields::take(Fields::parse(body.to_string().as_bytes())?)
    }

    #[test]
    fn outputs_are_streamed_unless_the_request_says_otherwise() {
        let hello = json!({"messages": [{"role": "user", "content": "hi"}]});
        let plain = take(hello.clone()).unwrap();
        assert!(plain.common.stream && plain.conversation.is_some());
        assert!(plain.common.think == Think::Unsaid);
        let mut whole = hello;
        whole["stream"] = json!(false);
        assert!(!take(whole).unwrap().common.stream);
    }

    #[test]
    fn nothing_said_asks_for_the_model_alone() {
        assert!(take(json!({"model": "m"})).unwrap().conversation.is_none());
        let empty = take(json!({"model": "m", "messages": [], "keep_alive": 0})).unwrap();
        assert!(empty.conversation.is_none() && empty.common.stay.check().is_err());
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
