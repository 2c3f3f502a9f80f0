//! `POST /v1/chat/completions`

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use serde_json::Value;
use terrace_engine::text::{MAX_LOGPROBS, Prompt};
use terrace_model::RenderOptions;

use crate::answers::{Answers, off_thread};
use crate::api_error::ApiError;
use crate::conversation::{Conversation, take_render_options};
use crate::docs::{ChatBody, Refusals};
use crate::fields::Fields;
use crate::logging::RequestLog;
use crate::openai::chat_shape::{ChatChunk, ChatCompletion};
use crate::openai::chat_writer::ChatWriter;
use crate::openai::delivery::Delivery;
use crate::options::{RequestOptions, RouteDefaults};
use crate::sse;
use crate::state::AppState;

/// Continues a conversation.
#[utoipa::path(
    post, path = "/v1/chat/completions", tag = "OpenAI", operation_id = "createChatCompletion",
    request_body = ChatBody,
    responses(
        (status = 200, description = "all answers; streamed, pieces of them", content(
            (ChatCompletion = "application/json"), (ChatChunk<'_> = "text/event-stream")
        )),
        Refusals
    )
)]
pub async fn create(
    State(state): State<Arc<AppState>>,
    Extension(log): Extension<Arc<RequestLog>>,
    fields: Fields,
) -> Result<Response, ApiError> {
    let ChatRequest { conversation, render, options, delivery } = ChatRequest::take(fields)?;
    let model = state.model(options.model.as_deref())?;
    let renderer = Arc::clone(&model);
    let prompt = off_thread(move || renderer.render(&conversation, &render)).await?;

    let defaults = RouteDefaults::openai_chat();
    let request = options.text_request(Prompt::Rendered(prompt), &state.config.presets, defaults);
    let writer = ChatWriter {
        model: model.name().to_owned(),
        choices: options.choices(),
        logprobs: options.generation.logprobs.map(|_| model.token_names()),
    };
    let answers = Answers::submit(&state, log, model, vec![request], options.choices()).await?;
    match delivery {
        Delivery::Whole => writer.whole(answers).await,
        Delivery::Streamed { include_usage } => {
            Ok(sse::respond(answers, writer.streamed(include_usage)))
        }
    }
}

#[derive(Debug)]
struct ChatRequest {
    conversation: Conversation,
    render: RenderOptions,
    options: RequestOptions,
    delivery: Delivery,
}

impl ChatRequest {
    fn take(mut fields: Fields) -> Result<Self, ApiError> {
        let conversation = Conversation::take(&mut fields)?;
        let render = take_render_options(&mut fields)?;
        let mut options = RequestOptions::take(&mut fields)?;
        options.generation.logprobs = take_logprobs(&mut fields)?;
        let delivery = Delivery::take(&mut fields)?;
        refuse_unsupported(&mut fields)?;
        fields.finish()?;
        Ok(Self { conversation, render, options, delivery })
    }
}

fn take_logprobs(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    let asked = fields.take::<bool>("logprobs")?.unwrap_or(false);
    let invalid = |message| Err(ApiError::invalid("top_logprobs", message));
    match (asked, fields.take::<usize>("top_logprobs")?) {
        // The engine checks it too, but calls it otherwise.
        (true, Some(top)) if top > MAX_LOGPROBS => {
            invalid(format!("top_logprobs is {top}, the limit is {MAX_LOGPROBS}"))
        }
        (true, top) => Ok(Some(top.unwrap_or(0))),
        (false, None | Some(0)) => Ok(None),
        (false, Some(_)) => invalid("top_logprobs needs \"logprobs\": true".to_owned()),
    }
}

/// OpenAI's options that would change the answer and that we cannot honour.
fn refuse_unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    let text_only = "this model reads and writes text only";
    let no_tools = "tool calls are not parsed; describe the tool in a message instead";
    fields.refuse("tools", no_tools)?;
    fields.refuse("functions", no_tools)?;
    // Without tools these three say nothing, unless a call is demanded.
    fields.ignore(&["parallel_tool_calls"]);
    for name in ["tool_choice", "function_call"] {
        match fields.take_value(name) {
            None => {}
            Some(Value::String(choice)) if choice == "none" || choice == "auto" => {}
            Some(_) => {
                return Err(ApiError::invalid(
                    name,
                    format!("{name} is not supported: {no_tools}"),
                ));
            }
        }
    }
    if let Some(kinds) = fields.take::<Vec<String>>("modalities")?
        && kinds.iter().any(|kind| kind != "text")
    {
        return Err(ApiError::invalid("modalities", format!("modalities {kinds:?}: {text_only}")));
    }
    fields.refuse("audio", text_only)?;
    fields.refuse("reasoning_effort", "set it in chat_template_kwargs if the model knows it")?;
    fields.refuse("verbosity", "ask for short or long answers in a message")?;
    fields.refuse("web_search_options", "this server does not reach the network")?;
    fields.refuse("store", "answers are not kept")
}

#[cfg(test)]
mod tests {
    use terrace_engine::text::GenerationConfig;

    use super::*;

    fn take(rest: &str) -> Result<ChatRequest, ApiError> {
        let body = format!(r#"{{"messages": [{{"role": "user", "content": "hi"}}]{rest}}}"#);
        ChatRequest::take(Fields::parse(body.as_bytes())?)
    }

    #[track_caller]
    fn check_refused(rest: &str, param: &str, want: &str) {
        let error: Value = serde_json::from_str(&take(rest).unwrap_err().to_json()).unwrap();
        assert_eq!(error["error"]["param"], param);
        assert_eq!(error["error"]["message"], want);
    }

    #[test]
    fn a_plain_chat_asks_for_nothing_more() {
        let chat = take("").unwrap();
        assert_eq!(chat.options.generation, GenerationConfig::default());
        assert_eq!(chat.delivery, Delivery::Whole);
        assert!(chat.render.add_generation_prompt);
    }

    #[test]
    fn logprobs_are_asked_in_two_fields() {
        let logprobs = |rest| take(rest).unwrap().options.generation.logprobs;
        assert_eq!(logprobs(r#", "logprobs": true"#), Some(0));
        assert_eq!(logprobs(r#", "logprobs": true, "top_logprobs": 5"#), Some(5));
        assert_eq!(logprobs(r#", "logprobs": false"#), None);
        let many = r#", "logprobs": true, "top_logprobs": 21"#;
        check_refused(many, "top_logprobs", "top_logprobs is 21, the limit is 20");
        let alone = r#", "top_logprobs": 5"#;
        check_refused(alone, "top_logprobs", "top_logprobs needs \"logprobs\": true");
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_a_reason() {
        check_refused(
            r#", "tools": [{"type": "function"}]"#,
            "tools",
            "tools is not supported: tool calls are not parsed; describe the tool in a message \
             instead",
        );
        check_refused(
            r#", "store": true"#,
            "store",
            "store is not supported: answers are not kept",
        );
    }

    #[test]
    fn options_that_ask_for_nothing_pass() {
        assert!(
            take(
                r#", "tools": [], "tool_choice": "auto", "parallel_tool_calls": true,
                    "response_format": {"type": "text"}, "modalities": ["text"], "store": false"#
            )
            .is_ok()
        );
    }
}
