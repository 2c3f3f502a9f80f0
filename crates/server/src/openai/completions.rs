//! `POST /v1/completions`

use std::sync::Arc;

use terrace_engine::TokenId;
use terrace_engine::text::Prompt;

use crate::api_error::{ApiError, ApiResult, Reply};
use crate::bounded_work::off_thread;
use crate::docs::{CompletionBody, Refusals};
use crate::fields::{Fields, JsonRequest};
use crate::language::{RequestOptions, RequestOutputs, RouteDefaults, ServedModel, sse};
use crate::openai::completion_shape::Completion;
use crate::openai::completion_writer::{CompletionWriter, Echo, Reports, Written};
use crate::openai::delivery::Delivery;
use crate::openai::fill_in_the_middle;
use crate::openai::prompts::take_prompts;
use crate::openai::shape::Head;

/// Continues prompts.
#[utoipa::path(post, path = "/v1/completions", tag = "OpenAI", operation_id = "createCompletion",
    request_body = CompletionBody, responses(Refusals, (status = 200,
        description = "all choices; streamed as deltas",
        content((Completion<'_> = "application/json"), (Completion<'_> = "text/event-stream")))))]
pub async fn create(JsonRequest { state, log, fields }: JsonRequest) -> Reply {
    let request = CompletionRequest::take(fields)?;
    let CompletionRequest { mut prompts, options, echo, prompt_only, best, reports, .. } = request;
    let outputs = options.check_choices(prompts.len(), &state.config.limits)?;
    let model = state.services.language.model(options.model.as_deref())?;
    if let Some(suffix) = &request.suffix {
        if options.handle.is_some() {
            let message = "suffix cannot be given with kv_cache.handle: the handle comes before \
                           the whole prompt";
            return Err(ApiError::invalid("suffix", message));
        }
        prompts = fill_in_the_middle::prompts(&model, prompts, suffix)?;
    }
    let text_request = |prompt: Prompt| {
        let defaults = RouteDefaults::openai_completions();
        options.text_request(prompt, &state.config.presets, defaults)
    };
    let echoed = if echo { prompts.clone() } else { Vec::new() };
    let requests = prompts.into_iter().map(text_request).collect();
    let written = vec![Written::default(); outputs];
    let outputs =
        RequestOutputs::submit(&state, log, Arc::clone(&model), requests, &options).await?;
    let tokens = outputs.prompts().to_vec();
    let head = Head::new("cmpl-", "text_completion", model.name());
    outputs.sent_as(&head.id);
    let writer = CompletionWriter {
        head,
        names: model.token_names(),
        reports,
        written,
        echo: if echo { Some(echoes(model, echoed, tokens.clone()).await?) } else { None },
        prompts: tokens,
        prompt_only,
        warnings: outputs.warnings().to_vec(),
        used_handle: outputs.used_handle().cloned(),
    };
    match request.delivery {
        Delivery::Whole => writer.whole(outputs, best).await,
        Delivery::Streamed(usage) => Ok(sse::respond(outputs, writer.streamed(usage))),
    }
}

async fn echoes(
    model: Arc<ServedModel>,
    prompts: Vec<Prompt>,
    tokens: Vec<Arc<[TokenId]>>,
) -> ApiResult<Vec<Echo>> {
    let echo = move |(prompt, tokens): (Prompt, Arc<[TokenId]>)| {
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
    /// The prompt's own log-probabilities are requested and no output: `echo` with `max_tokens` 0.
    prompt_only: bool,
    /// What comes after the output.
    suffix: Option<String>,
    /// How many choices are returned, where more are decoded.
    best: Option<usize>,
    reports: Reports,
    delivery: Delivery,
}

impl CompletionRequest {
    fn take(mut fields: Fields) -> ApiResult<Self> {
        let max_prompts = fields.max_choices;
        let prompts = take_prompts(&mut fields, "prompt", max_prompts)?;
        let mut options = RequestOptions::take(&mut fields)?;
        let echo = fields.take("echo")?.unwrap_or(false);
        let logprobs = fields.take("logprobs")?;
        let prompt_logprobs = fields.take("prompt_logprobs")?;
        let reports = Reports {
            logprobs: logprobs.is_some(),
            prompt_logprobs: prompt_logprobs.is_some(),
            token_ids: options.returns_token_ids,
        };
        options.generation.logprobs = logprobs;
        options.generation.prompt_logprobs = prompt_logprobs.max(logprobs.filter(|_| echo));
        let prompt_only = echo && options.generation.max_new_tokens == Some(0);
        if prompt_only {
            options.generation.max_new_tokens = Some(1);
        }
        let delivery = Delivery::take(&mut fields)?;
        let best = take_best_of(&mut fields, &mut options, delivery)?;
        let suffix = fields.take::<String>("suffix")?.filter(|suffix| !suffix.is_empty());
        if echo && suffix.is_some() {
            return Err(ApiError::invalid("suffix", "suffix and echo do not go together"));
        }
        fields.finish()?;
        let request = Self { prompts, options, echo, prompt_only, suffix, best, reports, delivery };
        Ok(request)
    }
}

/// How many choices are kept of the `best_of` that are decoded; all are ranked by the mean
/// log-probability of their tokens, which therefore must be known.
fn take_best_of(
    fields: &mut Fields,
    options: &mut RequestOptions,
    delivery: Delivery,
) -> ApiResult<Option<usize>> {
    let kept = options.choices();
    let most = i64::try_from(fields.max_choices).unwrap_or(i64::MAX);
    let Some(best_of) = fields.take_in("best_of", 1..=most)? else { return Ok(None) };
    let best_of = usize::try_from(best_of).expect("the range is positive");
    let invalid = |message: String| Err(ApiError::invalid("best_of", message));
    if best_of < kept {
        return invalid(format!("best_of is {best_of}, less than n, which is {kept}"));
    }
    if best_of == kept {
        return Ok(None);
    }
    if delivery != Delivery::Whole {
        return invalid(format!(
            "best_of is {best_of} and n is {kept}: which are best is known at the end, so they \
             cannot be streamed"
        ));
    }
    options.generation.n = Some(best_of);
    options.generation.logprobs.get_or_insert(0);
    Ok(Some(kept))
}

#[cfg(test)]
mod tests {

    use super::*;

    fn take(body: &str) -> ApiResult<CompletionRequest> {
        CompletionRequest::take(Fields::parse(body.as_bytes())?)
    }

    #[track_caller]
    fn check_refused(body: &str, want: &str) {
        assert_eq!(take(body).unwrap_err().message(), want);
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
    fn best_of_decodes_more_than_it_returns() {
        let same = take(r#"{"prompt": "a", "n": 2, "best_of": 2, "suffix": ""}"#).unwrap();
        assert_eq!((same.best, same.suffix), (None, None));
        let more = take(r#"{"prompt": "a", "n": 2, "best_of": 5}"#).unwrap();
        let generation = &more.options.generation;
        assert_eq!((more.best, generation.n, generation.logprobs), (Some(2), Some(5), Some(0)));
        assert!(!more.reports.logprobs);
        check_refused(
            r#"{"prompt": "a", "n": 3, "best_of": 2}"#,
            "best_of is 2, less than n, which is 3",
        );
        check_refused(
            r#"{"prompt": "a", "best_of": 3, "stream": true}"#,
            "best_of is 3 and n is 1: which are best is known at the end, so they cannot be \
             streamed",
        );
    }
}
