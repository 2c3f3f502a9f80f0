//! `POST /v1/completions`

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use terrace_engine::TokenId;
use terrace_engine::text::Prompt;

use crate::answers::{Answers, off_thread};
use crate::api_error::ApiError;
use crate::docs::{CompletionBody, Refusals};
use crate::fields::Fields;
use crate::logging::RequestLog;
use crate::openai::completion_shape::Completion;
use crate::openai::completion_writer::{CompletionWriter, Echo, Written};
use crate::openai::delivery::Delivery;
use crate::openai::prompts::take_prompts;
use crate::openai::shape::Head;
use crate::options::{RequestOptions, RouteDefaults};
use crate::served_model::ServedModel;
use crate::sse;
use crate::state::AppState;

/// Continues prompts.
#[utoipa::path(
    post, path = "/v1/completions", tag = "OpenAI", operation_id = "createCompletion",
    request_body = CompletionBody,
    responses(
        (status = 200, description = "all answers; streamed, pieces of them", content(
            (Completion<'_> = "application/json"), (Completion<'_> = "text/event-stream")
        )),
        Refusals
    )
)]
pub async fn create(
    State(state): State<Arc<AppState>>,
    Extension(log): Extension<Arc<RequestLog>>,
    fields: Fields,
) -> Result<Response, ApiError> {
    let CompletionRequest { prompts, options, echo, prompt_only, delivery } =
        CompletionRequest::take(fields)?;
    let model = state.model(options.model.as_deref())?;
    let request = |prompt: &Prompt| {
        let defaults = RouteDefaults::openai_completions();
        options.text_request(prompt.clone(), &state.config.presets, defaults)
    };
    let requests = prompts.iter().map(request).collect();
    let answers =
        Answers::submit(&state, log, Arc::clone(&model), requests, options.choices()).await?;
    let writer = CompletionWriter {
        head: Head::new("cmpl-", "text_completion", model.name()),
        logprobs: options.generation.logprobs.map(|_| model.token_names()),
        written: vec![Written::default(); prompts.len() * options.choices()],
        echo: if echo {
            Some(echoes(model, prompts, answers.prompts().to_vec()).await?)
        } else {
            None
        },
        prompt_only,
    };
    match delivery {
        Delivery::Whole => writer.whole(answers).await,
        Delivery::Streamed { include_usage } => {
            Ok(sse::respond(answers, writer.streamed(include_usage)))
        }
    }
}

async fn echoes(
    model: Arc<ServedModel>,
    prompts: Vec<Prompt>,
    tokens: Vec<Vec<TokenId>>,
) -> Result<Vec<Echo>, ApiError> {
    let echo = move |(prompt, tokens): (Prompt, Vec<TokenId>)| {
        let text = match prompt {
            Prompt::Text(text) | Prompt::Rendered(text) => text,
            Prompt::Tokens(ids) => model.decode(&ids)?,
        };
        Ok(Echo { text, tokens, logprobs: None })
    };
    off_thread(move || prompts.into_iter().zip(tokens).map(echo).collect()).await
}

#[derive(Debug)]
struct CompletionRequest {
    prompts: Vec<Prompt>,
    options: RequestOptions,
    echo: bool,
    /// The prompt's own log-probabilities are wanted and no answer: `echo` with `max_tokens` 0.
    prompt_only: bool,
    delivery: Delivery,
}

impl CompletionRequest {
    fn take(mut fields: Fields) -> Result<Self, ApiError> {
        let prompts = take_prompts(&mut fields, "prompt")?;
        let mut options = RequestOptions::take(&mut fields)?;
        let echo = fields.take("echo")?.unwrap_or(false);
        let logprobs = fields.take("logprobs")?;
        options.generation.logprobs = logprobs;
        options.generation.prompt_logprobs = logprobs.filter(|_| echo);
        let prompt_only = echo && options.generation.max_new_tokens == Some(0);
        if prompt_only {
            options.generation.max_new_tokens = Some(1);
        }
        let delivery = Delivery::take(&mut fields)?;
        check_best_of(&mut fields, options.choices())?;
        fields.refuse("suffix", "these models write forward only")?;
        fields.finish()?;
        Ok(Self { prompts, options, echo, prompt_only, delivery })
    }
}

fn check_best_of(fields: &mut Fields, choices: usize) -> Result<(), ApiError> {
    match fields.take::<usize>("best_of")? {
        Some(best_of) if best_of != choices => {
            let message = format!(
                "best_of is {best_of} and n is {choices}: all answers are returned, none is \
                 chosen; leave best_of out"
            );
            Err(ApiError::invalid("best_of", message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn take(body: &str) -> Result<CompletionRequest, ApiError> {
        CompletionRequest::take(Fields::parse(body.as_bytes())?)
    }

    #[track_caller]
    fn check_refused(body: &str, want: &str) {
        let error: Value = serde_json::from_str(&take(body).unwrap_err().to_json()).unwrap();
        assert_eq!(error["error"]["message"], want);
    }

    #[test]
    fn echo_with_logprobs_asks_for_the_prompts_too() {
        let generation = |body| take(body).unwrap().options.generation;
        let plain = generation(r#"{"prompt": "a", "logprobs": 2}"#);
        assert_eq!((plain.logprobs, plain.prompt_logprobs), (Some(2), None));
        let echoed = generation(r#"{"prompt": "a", "logprobs": 2, "echo": true}"#);
        assert_eq!((echoed.logprobs, echoed.prompt_logprobs), (Some(2), Some(2)));
    }

    #[test]
    fn no_new_tokens_with_echo_scores_the_prompt() {
        let scored = take(r#"{"prompt": "a", "max_tokens": 0, "echo": true}"#).unwrap();
        assert!(scored.prompt_only);
        assert_eq!(scored.options.generation.max_new_tokens, Some(1));
        let plain = take(r#"{"prompt": "a", "max_tokens": 0}"#).unwrap();
        assert_eq!((plain.prompt_only, plain.options.generation.max_new_tokens), (false, Some(0)));
    }

    #[test]
    fn best_of_and_suffix_are_refused() {
        assert!(take(r#"{"prompt": "a", "n": 2, "best_of": 2, "suffix": ""}"#).is_ok());
        check_refused(
            r#"{"prompt": "a", "best_of": 3}"#,
            "best_of is 3 and n is 1: all answers are returned, none is chosen; leave best_of out",
        );
        check_refused(
            r#"{"prompt": "a", "suffix": "b"}"#,
            "suffix is not supported: these models write forward only",
        );
    }
}
