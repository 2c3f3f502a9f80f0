//! `POST /v1/chat/completions`

use crate::api_error::{ApiError, ApiResult, Reply};
use crate::chat::{ChatRequest, Conversation, take_render_options};
use crate::docs::{ChatBody, Refusals};
use crate::fields::{Fields, JsonRequest};
use crate::language::{RequestOptions, RouteDefaults, sse};
use crate::openai::chat_shape::{ChatChunk, ChatCompletion};
use crate::openai::chat_writer::ChatWriter;
use crate::openai::delivery::Delivery;
use crate::openai::logprobs::take_logprobs;
use crate::tools::ToolOffer;

/// Continues a conversation.
#[utoipa::path(post, path = "/v1/chat/completions", tag = "OpenAI",
    operation_id = "createChatCompletion", request_body = ChatBody,
    responses(Refusals, (status = 200, description = "all choices; streamed as deltas",
        content((ChatCompletion = "application/json"), (ChatChunk<'_> = "text/event-stream")))))]
pub async fn create(JsonRequest { state, log, fields }: JsonRequest) -> Reply {
    let (chat, delivery) = take_request(fields)?;
    let wants_logprobs = chat.options.generation.logprobs.is_some();
    let returns_token_ids = chat.options.returns_token_ids;
    let outputs = chat.start(&state, log, RouteDefaults::openai_chat()).await?;
    let names = outputs.model().token_names();
    let writer = ChatWriter { logprobs: wants_logprobs.then_some(names), returns_token_ids };
    match delivery {
        Delivery::Whole => writer.whole(outputs).await,
        Delivery::Streamed(usage) => {
            let frames = writer.streamed(&outputs, usage);
            Ok(sse::respond(outputs, frames))
        }
    }
}

fn take_request(mut fields: Fields) -> ApiResult<(ChatRequest, Delivery)> {
    let conversation = Conversation::take(&mut fields)?;
    let offer = ToolOffer::take(&mut fields)?;
    let render = take_render_options(&mut fields)?;
    let mut options = RequestOptions::take(&mut fields)?;
    options.generation.logprobs = take_logprobs(&mut fields)?;
    options.generation.prompt_logprobs = fields.take("prompt_logprobs")?;
    let delivery = Delivery::take(&mut fields)?;
    refuse_unsupported(&mut fields)?;
    fields.finish()?;
    Ok((ChatRequest { conversation, render, offer, options }, delivery))
}

/// OpenAI's options that would change the output and that we cannot honour.
fn refuse_unsupported(fields: &mut Fields) -> ApiResult<()> {
    let text_only = "this model reads and writes text only";
    fields.refuse("functions", "its successor is tools")?;
    fields.refuse("function_call", "its successor is tool_choice")?;
    if let Some(kinds) = fields.take::<Vec<String>>("modalities")?
        && kinds.iter().any(|kind| kind != "text")
    {
        return Err(ApiError::invalid("modalities", format!("modalities {kinds:?}: {text_only}")));
    }
    fields.refuse("audio", text_only)?;
    // How long an output is, is the model's own choice.
    fields.ignore(&["verbosity"]);
    fields.refuse("web_search_options", "this server does not reach the network")
}

#[cfg(test)]
mod tests {
    use terrace_engine::text::GenerationConfig;

    use super::*;

    fn take(rest: &str) -> ApiResult<(ChatRequest, Delivery)> {
        let body = format!(r#"{{"messages": [{{"role": "user", "content": "hi"}}]{rest}}}"#);
        take_request(Fields::parse(body.as_bytes())?)
    }

    #[track_caller]
    fn check_refused(rest: &str, param: &str, want: &str) {
        take(rest).unwrap_err().check_is(param, want);
    }

    #[test]
    fn a_plain_chat_asks_for_nothing_more() {
        let (chat, delivery) = take("").unwrap();
        assert_eq!(chat.options.generation, GenerationConfig::default());
        assert_eq!(delivery, Delivery::Whole);
        assert!(chat.render.add_generation_prompt);
    }

    #[test]
    fn logprobs_are_requested_in_two_fields() {
        let logprobs = |rest| take(rest).unwrap().0.options.generation.logprobs;
        assert_eq!(logprobs(r#", "logprobs": true"#), Some(0));
        assert_eq!(logprobs(r#", "logprobs": true, "top_logprobs": 5"#), Some(5));
        assert_eq!(logprobs(r#", "logprobs": false"#), None);
        let many = r#", "logprobs": true, "top_logprobs": 21"#;
        check_refused(
            many,
            "top_logprobs",
            "top_logprobs is 21: it must be a whole number from 0 to 20",
        );
        let alone = r#", "top_logprobs": 5"#;
        check_refused(alone, "top_logprobs", "top_logprobs needs \"logprobs\": true");
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_a_reason() {
        check_refused(
            r#", "functions": [{"name": "f"}]"#,
            "functions",
            "functions is not supported: its successor is tools",
        );
        check_refused(
            r#", "web_search_options": {"a": 1}"#,
            "web_search_options",
            "web_search_options is not supported: this server does not reach the network",
        );
    }

    #[test]
    fn options_that_ask_for_nothing_pass() {
        assert!(
            take(
                r#", "tools": [], "tool_choice": "auto", "parallel_tool_calls": true,
                    "response_format": {"type": "text"}, "modalities": ["text"],
                    "store": true, "verbosity": "low""#
            )
            .is_ok()
        );
    }
}
