//! `POST /v1/messages`

use super::event_shape::Event;
use super::message_shape::Message;
use super::message_writer::MessageWriter;
use super::messages_prompt::MessagesPrompt;
use crate::api_error::{ApiError, ApiResult, Reply};
use crate::chat::ChatRequest;
use crate::docs::{AnthropicRefusals, MessagesBody};
use crate::fields::{Fields, JsonRequest};
use crate::language::{RequestOptions, RouteDefaults, sse};

/// Continues a conversation, as Anthropic's API does.
#[utoipa::path(post, path = "/v1/messages", tag = "Anthropic", operation_id = "createMessage",
    request_body = MessagesBody, responses(AnthropicRefusals, (status = 200,
        description = "the message; streamed, events that build it",
        content((Message = "application/json"), (Event = "text/event-stream")))))]
pub async fn create(JsonRequest { state, log, fields }: JsonRequest) -> Reply {
    let MessagesRequest { chat, is_streamed, shows_thinking } = take_request(fields)?;
    let request_id = log.id().to_owned();
    let outputs = chat.start(&state, log, RouteDefaults::openai_chat()).await?;
    let writer = MessageWriter { shows_thinking };
    match is_streamed {
        false => writer.whole(outputs).await,
        true => {
            let frames = writer.streamed(&outputs, request_id);
            Ok(sse::respond(outputs, frames))
        }
    }
}

#[derive(Debug)]
struct MessagesRequest {
    chat: ChatRequest,
    is_streamed: bool,
    shows_thinking: bool,
}

fn take_request(mut fields: Fields) -> ApiResult<MessagesRequest> {
    let prompt = MessagesPrompt::take(&mut fields)?;
    let MessagesPrompt { conversation, render, offer, output } = prompt;
    if fields.kind_of("max_tokens").is_none() {
        return Err(ApiError::missing("max_tokens"));
    }
    let stop_sequences: Option<Vec<String>> = fields.take("stop_sequences")?;
    let mut options = RequestOptions::take(&mut fields)?;
    if let Some(texts) = stop_sequences {
        if options.generation.stop.is_some() {
            let message = "stop_sequences and stop mean the same; give one of the two";
            return Err(ApiError::invalid("stop_sequences", message));
        }
        options.generation.stop = Some(texts);
        options.alias("stop", "stop_sequences");
    }
    if let Some(grammar) = output.grammar {
        if let Some(other) = &options.grammar {
            let message = format!(
                "output_config.format and {} both say what the output must look like",
                other.option
            );
            return Err(ApiError::invalid("output_config", message));
        }
        options.grammar = Some(grammar);
    }
    refuse_several(&options)?;
    let is_streamed = fields.take("stream")?.unwrap_or(false);
    refuse_unsupported(&mut fields)?;
    fields.finish()?;
    let chat = ChatRequest { conversation, render, offer, options };
    Ok(MessagesRequest { chat, is_streamed, shows_thinking: output.shows_thinking })
}

/// Options of the other routes for which Anthropic's shapes have no field.
fn refuse_several(options: &RequestOptions) -> ApiResult<()> {
    if options.choices() != 1 {
        let message = format!("n is {}: a message is one choice", options.choices());
        return Err(ApiError::invalid("n", message));
    }
    if options.returns_token_ids {
        let message = "return_token_ids: a message has no field for them; use \
                       /v1/chat/completions";
        return Err(ApiError::invalid("return_token_ids", message));
    }
    Ok(())
}

/// Anthropic's options that we cannot honour. `metadata` and `service_tier` are ignored with the
/// bookkeeping of all routes.
fn refuse_unsupported(fields: &mut Fields) -> ApiResult<()> {
    fields.refuse("container", "this server runs no code")?;
    fields.refuse("inference_geo", "the model runs where this server does")?;
    // Asks why a prefix was not found in the cache; the response may leave it open.
    fields.ignore(&["diagnostics"]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use terrace_engine::text::GenerationConfig;

    use super::*;

    fn take(rest: Value) -> ApiResult<MessagesRequest> {
        let mut body = json!({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 8});
        for (name, value) in rest.as_object().expect("an object") {
            body[name] = value.clone();
        }
        take_request(Fields::parse(body.to_string().as_bytes())?)
    }

    #[track_caller]
    fn check_refused(rest: Value, want: &str) {
        assert_eq!(take(rest).unwrap_err().message(), want);
    }

    #[test]
    fn a_plain_message_asks_for_nothing_more() {
        let request = take(json!({})).unwrap();
        let want = GenerationConfig { max_new_tokens: Some(8), ..GenerationConfig::default() };
        assert_eq!(request.chat.options.generation, want);
        assert!(!request.is_streamed && request.shows_thinking);
        assert!(request.chat.render.add_generation_prompt);
    }

    #[test]
    fn sampling_goes_by_anthropics_names_and_ours() {
        let request = take(json!({
            "temperature": 0.5, "top_p": 0.9, "top_k": 5, "stop_sequences": ["END"], "seed": 7,
            "min_p": 0.1, "stream": true,
        }));
        let request = request.unwrap();
        let want = GenerationConfig {
            max_new_tokens: Some(8),
            temperature: Some(0.5),
            top_p: Some(0.9),
            top_k: Some(5),
            min_p: Some(0.1),
            seed: Some(7),
            stop: Some(vec!["END".to_owned()]),
            ..GenerationConfig::default()
        };
        assert_eq!(request.chat.options.generation, want);
        assert!(request.is_streamed);
    }

    #[test]
    fn bookkeeping_passes() {
        let rest = json!({
            "metadata": {"user_id": "u"}, "service_tier": "auto", "speed": "fast",
            "cache_control": {"type": "ephemeral"}, "container": null, "mcp_servers": [],
            "diagnostics": {"previous_message_id": "msg_1"},
        });
        assert!(take(rest).is_ok());
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_a_reason() {
        check_refused(json!({"max_tokens": null}), "max_tokens is missing");
        check_refused(
            json!({"container": "c"}),
            "container is not supported: this server runs no code",
        );
        check_refused(
            json!({"inference_geo": "eu"}),
            "inference_geo is not supported: the model runs where this server does",
        );
        check_refused(json!({"n": 2}), "n is 2: a message is one choice");
        check_refused(
            json!({"stop": "a", "stop_sequences": ["b"]}),
            "stop_sequences and stop mean the same; give one of the two",
        );
        let format = json!({"type": "json_schema", "schema": {"type": "object"}});
        check_refused(
            json!({"output_config": {"format": format}, "guided_regex": "a"}),
            "output_config.format and guided_regex both say what the output must look like",
        );
        check_refused(json!({"temprature": 1}), "unknown field \"temprature\"");
    }
}
