//! `POST /v1/chat/completions`

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use terrace_engine::guidance::{Grammar, GrammarRule};
use terrace_engine::text::{MAX_LOGPROBS, Prompt, TextRequest};
use terrace_model::{RenderOptions, SpecialTokens};

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
use crate::served_model::ServedModel;
use crate::sse;
use crate::state::AppState;
use crate::tools::{AllowedCalls, AnswerReader, ToolOffer};

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
    let chat = ChatRequest::take(fields)?;
    let ChatRequest { conversation, render, offer, options, delivery } = chat;
    let model = state.model(options.model.as_deref())?;
    let renderer = Arc::clone(&model);
    let prompt = off_thread(move || renderer.render(&conversation, &render)).await?;

    let defaults = RouteDefaults::openai_chat();
    let presets = &state.config.presets;
    let mut request = options.text_request(Prompt::Rendered(prompt), presets, defaults);
    if let Some(offer) = &offer {
        expect_calls(&mut request, &model, offer)?;
    }
    let reader = |_| AnswerReader::new(model.tool_style(), offer.as_ref());
    let writer = ChatWriter {
        model: model.name().to_owned(),
        readers: (0..options.choices()).map(reader).collect(),
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
    offer: Option<ToolOffer>,
    options: RequestOptions,
    delivery: Delivery,
}

impl ChatRequest {
    fn take(mut fields: Fields) -> Result<Self, ApiError> {
        let conversation = Conversation::take(&mut fields)?;
        let offer = ToolOffer::take(&mut fields)?;
        let tools = offer.as_ref().map(ToolOffer::described);
        let render = RenderOptions { tools, ..take_render_options(&mut fields)? };
        let mut options = RequestOptions::take(&mut fields)?;
        options.generation.logprobs = take_logprobs(&mut fields)?;
        let delivery = Delivery::take(&mut fields)?;
        refuse_unsupported(&mut fields)?;
        fields.finish()?;
        Ok(Self { conversation, render, offer, options, delivery })
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

/// Lets calls be seen. Holds the answer to them if one must come, or if it has a form that they
/// would break.
fn expect_calls(
    request: &mut TextRequest,
    model: &ServedModel,
    offer: &ToolOffer,
) -> Result<(), ApiError> {
    let format = model.tool_style().format;
    // What begins the calls may be a token that is otherwise not shown.
    let open = model.special_token(format.frame().open);
    if open.is_some() {
        request.special = SpecialTokens::Keep;
    }
    let answer = match (offer.must_call(), request.grammar.take()) {
        (true, None) => None,
        (true, Some(Grammar { option, .. })) => {
            let message = format!("tool_choice asks for a call and {option} for something else");
            return Err(ApiError::invalid("tool_choice", message));
        }
        (false, Some(Grammar { rule: GrammarRule::JsonSchema(schema), .. })) => Some(schema),
        (false, other) => {
            request.grammar = other;
            return Ok(());
        }
    };
    let functions = offer.functions();
    let allowed = AllowedCalls { functions, is_parallel: offer.is_parallel(), open, answer };
    request.grammar = Some(Grammar { option: "tools", rule: format.calls(allowed) });
    Ok(())
}

/// OpenAI's options that would change the answer and that we cannot honour.
fn refuse_unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    let text_only = "this model reads and writes text only";
    fields.refuse("functions", "its successor is tools")?;
    fields.refuse("function_call", "its successor is tool_choice")?;
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
    use serde_json::Value;
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
            r#", "functions": [{"name": "f"}]"#,
            "functions",
            "functions is not supported: its successor is tools",
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
