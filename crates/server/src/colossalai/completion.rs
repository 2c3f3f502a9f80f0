//! `POST /completion`: one prompt, one output.

use axum::Json;
use axum::response::IntoResponse;
use serde::Serialize;
use terrace_engine::text::Prompt;
use utoipa::ToSchema;

use crate::api_error::{ApiError, ApiResult, Reply};
use crate::colossalai::refuse_unsupported;
use crate::docs::{PlainCompletionBody, Refusals};
use crate::fields::{Fields, JsonRequest};
use crate::language::sse::{self, Frame, Frames, Source};
use crate::language::{OutputDelta, RequestOptions, RequestOutputs, RouteDefaults, Usage};

/// The output; when streamed, each event has this shape and a delta of the text.
#[derive(Debug, Serialize, ToSchema)]
struct CompletionText<'a> {
    /// As in the header `x-request-id`.
    request_id: &'a str,
    /// The output, or a delta of it.
    text: &'a str,
}

/// Continues one prompt.
#[utoipa::path(post, path = "/completion", tag = "Plain", operation_id = "plainCompletion",
    request_body = PlainCompletionBody, responses(Refusals, (status = 200,
        description = "the output; streamed as deltas",
        content((CompletionText<'_> = "application/json"),
            (CompletionText<'_> = "text/event-stream")))))]
pub async fn create(JsonRequest { state, log, fields }: JsonRequest) -> Reply {
    let CompletionRequest { prompt, stream, options } = CompletionRequest::take(fields)?;
    let model = state.services.language.model(options.model.as_deref())?;
    let defaults = RouteDefaults::colossalai();
    let request = options.text_request(Prompt::Text(prompt), &state.config.presets, defaults);
    let request_id = log.id().to_owned();
    let mut outputs = RequestOutputs::submit(&state, log, model, vec![request], &options).await?;
    if stream {
        return Ok(sse::respond(outputs, CompletionFrames { request_id }));
    }
    let mut text = String::new();
    while let Some(delta) = outputs.next().await {
        text.push_str(&delta?.text);
    }
    Ok(Json(CompletionText { request_id: &request_id, text: &text }).into_response())
}

#[derive(Debug)]
struct CompletionRequest {
    prompt: String,
    stream: bool,
    options: RequestOptions,
}

impl CompletionRequest {
    fn take(mut fields: Fields) -> ApiResult<Self> {
        let prompt = fields.require("prompt")?;
        let stream = fields.take_flag("stream")?.unwrap_or(false);
        let options = RequestOptions::take(&mut fields)?;
        if options.choices() != 1 {
            let message = "n: this route gives one output; use /v1/completions for more";
            return Err(ApiError::invalid("n", message));
        }
        refuse_unsupported(&mut fields)?;
        fields.finish()?;
        Ok(Self { prompt, stream, options })
    }
}

struct CompletionFrames {
    request_id: String,
}

impl Frames<OutputDelta> for CompletionFrames {
    fn open(&mut self) -> Vec<Frame> {
        Vec::new()
    }

    fn delta(&mut self, delta: OutputDelta, _usage: Usage) -> Vec<Frame> {
        if delta.text.is_empty() {
            return Vec::new();
        }
        vec![Frame::json(&CompletionText { request_id: &self.request_id, text: &delta.text })]
    }

    fn close(&mut self, _usage: Usage) -> Vec<Frame> {
        vec![Frame::done()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(body: &str) -> ApiResult<CompletionRequest> {
        CompletionRequest::take(Fields::parse(body.as_bytes())?)
    }

    #[test]
    fn any_generation_field_is_taken() {
        let body = r#"{"prompt": "a", "stream": "true", "max_new_tokens": 4, "top_k": 50,
                       "do_sample": true, "repetition_penalty": 1.1, "early_stopping": false}"#;
        let request = take(body).unwrap();
        assert!(request.stream);
        assert_eq!(request.options.generation.max_new_tokens, Some(4));
        assert_eq!(request.options.generation.do_sample, Some(true));
    }

    #[test]
    fn one_prompt_gets_one_output() {
        assert!(take(r#"{"prompt": ["a"]}"#).is_err());
        assert!(take(r#"{"prompt": "a", "n": 2}"#).is_err());
        assert!(take(r#"{"prompt": "a", "logprobs": 2}"#).is_err());
        assert!(take("{}").is_err());
    }

    #[test]
    fn each_event_has_the_responses_shape() {
        let mut frames = CompletionFrames { request_id: "r".to_owned() };
        let delta = |text: &str| OutputDelta { text: text.to_owned(), ..OutputDelta::default() };
        let want = Frame::from(r#"{"request_id":"r","text":"hi"}"#.to_owned());
        assert_eq!(frames.delta(delta("hi"), Usage::default()), [want]);
        assert_eq!(frames.delta(delta(""), Usage::default()), Vec::new());
    }
}
