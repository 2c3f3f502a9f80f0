//! `POST /api/chat`

use serde_json::{Map, Value};

use crate::api_error::{ApiResult, Reply};
use crate::chat::Conversation;
use crate::docs::{OllamaChatBody, OllamaRefusals};
use crate::fields::{Fields, JsonRequest};
use crate::ollama::common_fields::{CommonFields, Task};
use crate::ollama::line_shape::ChatLine;
use crate::ollama::line_writer::LineKind;
use crate::ollama::messages::converted;
use crate::tools::ToolOffer;

/// Continues a conversation, as Ollama does.
#[utoipa::path(post, path = "/api/chat", tag = "Ollama", operation_id = "ollamaChat",
    request_body = OllamaChatBody, responses(OllamaRefusals, (status = 200,
        description = "the output; streamed, a line for each delta",
        content((ChatLine = "application/json"), (ChatLine = "application/x-ndjson")))))]
pub async fn create(JsonRequest { state, log, fields }: JsonRequest) -> Reply {
    let (common, task) = take_request(fields)?;
    common.respond(LineKind::Chat, task, &state, log).await
}

/// There is no task where nothing is said.
fn take_request(mut fields: Fields) -> ApiResult<(CommonFields, Option<Task>)> {
    let messages = fields.take::<Vec<Map<String, Value>>>("messages")?.unwrap_or_default();
    let conversation = match messages.is_empty() {
        true => None,
        false => Some(Conversation::new(converted(messages)?)?),
    };
    let tools = fields.take::<Vec<Value>>("tools")?.unwrap_or_default();
    let common = CommonFields::take(&mut fields)?;
    let offer = ToolOffer::new(tools, None, true)?;
    fields.finish()?;
    Ok((common, conversation.map(|conversation| Task::Chat { conversation, offer })))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ollama::think::Think;

    fn take(body: Value) -> ApiResult<(CommonFields, Option<Task>)> {
        take_request(Fields::parse(body.to_string().as_bytes())?)
    }

    #[test]
    fn outputs_are_streamed_unless_the_request_says_otherwise() {
        let hello = json!({"messages": [{"role": "user", "content": "hi"}]});
        let (plain, task) = take(hello.clone()).unwrap();
        assert!(plain.stream && task.is_some());
        assert!(plain.think == Think::Unsaid);
        let mut whole = hello;
        whole["stream"] = json!(false);
        assert!(!take(whole).unwrap().0.stream);
    }

    #[test]
    fn nothing_said_asks_for_the_model_alone() {
        assert_eq!(take(json!({"model": "m"})).unwrap().1, None);
        let empty = json!({"model": "m", "messages": [], "keep_alive": 0});
        let (common, task) = take(empty).unwrap();
        assert!(task.is_none() && common.keep_alive.check().is_err());
    }

    #[test]
    fn what_cannot_be_honoured_is_refused() {
        let check = |name: &str, value: Value, want: &str| {
            take(json!({"messages": [], name: value})).unwrap_err().check_begins(want);
        };
        check("truncate", json!(true), "truncate is not supported");
        check("shift", json!(true), "shift is not supported");
        check("template", json!("x"), "unknown field \"template\"");
        check("top_logprobs", json!(3), "top_logprobs needs");
        assert!(take(json!({"truncate": false, "shift": false, "keep_alive": "5m"})).is_ok());
    }
}
