//! `POST /api/generate`
//!
//! A prompt goes through the model's chat template as a user's message, unless it is `raw` or
//! stands before a `suffix`.

use std::sync::Arc;

use axum::response::Response;
use serde_json::{Map, Value};
use terrace_engine::text::Prompt;
use terrace_model::RenderOptions;

use crate::api_error::ApiError;
use crate::chat::{ChatOutputs, ChatRequest, Conversation};
use crate::docs::{OllamaGenerateBody, OllamaRefusals};
use crate::fields::{Fields, JsonRequest};
use crate::language::{RequestOptions, RequestOutputs, RouteDefaults, ServedModel};
use crate::middleware::RequestLog;
use crate::ollama::common_fields::CommonFields;
use crate::ollama::line_shape::GenerateLine;
use crate::ollama::line_writer::{LineKind, loaded};
use crate::ollama::request_fields::Think;
use crate::openai::fill_in_the_middle;
use crate::state::AppState;

/// Answers a prompt, as Ollama does.
#[utoipa::path(
    post, path = "/api/generate", tag = "Ollama", operation_id = "ollamaGenerate",
    request_body = OllamaGenerateBody,
    responses(
        (status = 200, description = "the output; streamed, a line for each delta", content(
            (GenerateLine = "application/json"), (GenerateLine = "application/x-ndjson")
        )),
        OllamaRefusals
    )
)]
pub async fn create(JsonRequest { state, log, fields }: JsonRequest) -> Result<Response, ApiError> {
    let request = GenerateFields::take(fields)?;
    let (model, name) = request.common.model(&state)?;
    let Some(task) = request.task else {
        request.common.stay.check()?;
        return Ok(loaded(LineKind::Generate, &name));
    };
    let options = request.common.options(&model)?;
    let started = log.started;
    let outputs = match task {
        Task::Chat(conversation) => {
            let mut render = RenderOptions::next_message();
            request.common.think.apply(&mut render);
            let chat = ChatRequest { conversation, render, offer: None, options };
            chat.start(&state, log, RouteDefaults::ollama()).await
        }
        Task::Raw(prompt) => plain(&state, log, &model, Prompt::Text(prompt), &options).await,
        Task::FillIn { prompt, suffix } => {
            let prompt = vec![Prompt::Text(prompt)];
            let mut prompts = fill_in_the_middle::prompts(&model, prompt, &suffix)?;
            plain(&state, log, &model, prompts.remove(0), &options).await
        }
    };
    request.common.respond(LineKind::Generate, name, started, outputs).await
}

/// Goes on with a prompt that is no chat.
async fn plain(
    state: &AppState,
    log: Arc<RequestLog>,
    model: &Arc<ServedModel>,
    prompt: Prompt,
    options: &RequestOptions,
) -> Result<ChatOutputs, ApiError> {
    let request = options.text_request(prompt, &state.config.presets, RouteDefaults::ollama());
    let outputs =
        RequestOutputs::submit(state, log, Arc::clone(model), vec![request], options).await?;
    Ok(ChatOutputs::plain(outputs, Arc::clone(model)))
}

#[derive(Debug)]
struct GenerateFields {
    common: CommonFields,
    /// `None` where there is no prompt: then only the model is requested.
    task: Option<Task>,
}

#[derive(Debug, PartialEq)]
enum Task {
    Chat(Conversation),
    Raw(String),
    FillIn { prompt: String, suffix: String },
}

impl GenerateFields {
    fn take(mut fields: Fields) -> Result<Self, ApiError> {
        let common = CommonFields::take(&mut fields)?;
        let task = Task::take(&mut fields, &common.think)?;
        refuse_unsupported(&mut fields)?;
        fields.finish()?;
        Ok(Self { common, task })
    }
}

impl Task {
    fn take(fields: &mut Fields, think: &Think) -> Result<Option<Self>, ApiError> {
        let mut text = |name: &str| -> Result<Option<String>, ApiError> {
            Ok(fields.take::<String>(name)?.filter(|text| !text.is_empty()))
        };
        let (prompt, suffix, system) = (text("prompt")?, text("suffix")?, text("system")?);
        let is_raw = fields.take_flag("raw")?.unwrap_or(false);
        let by_template = [("system", system.is_some()), ("think", think.asks())];
        let requested = by_template.into_iter().find(|(_, is_requested)| *is_requested);
        if let (Some((name, _)), true) = (requested, is_raw || suffix.is_some()) {
            let other = if is_raw { "raw" } else { "suffix" };
            let message = format!(
                "{name} and {other} do not go together: {name} acts through the chat template, \
                 which {other} leaves out"
            );
            return Err(ApiError::invalid(name, message));
        }
        let Some(prompt) = prompt else {
            return match suffix {
                Some(suffix) => Ok(Some(Self::FillIn { prompt: String::new(), suffix })),
                None => Ok(None),
            };
        };
        Ok(Some(match suffix {
            Some(suffix) => Self::FillIn { prompt, suffix },
            None if is_raw => Self::Raw(prompt),
            None => Self::Chat(conversation(system, prompt)?),
        }))
    }
}

fn conversation(system: Option<String>, prompt: String) -> Result<Conversation, ApiError> {
    let message = |role: &str, content: String| {
        let fields = [("role", role.to_owned()), ("content", content)];
        fields.map(|(name, text)| (name.to_owned(), Value::String(text))).into_iter().collect()
    };
    let system = system.map(|text| message("system", text));
    let messages: Vec<Map<_, _>> = system.into_iter().chain([message("user", prompt)]).collect();
    Conversation::new(messages)
}

/// Ollama's fields that would change the output and that we cannot honour.
fn refuse_unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    fields.refuse("template", "the chat template is the server's to choose (--chat-template)")?;
    fields.refuse(
        "context",
        "tokens of earlier outputs are not taken up; send the messages to /api/chat, which finds \
         what it has computed before",
    )?;
    let text_only = "this model reads and writes text only";
    for name in ["images", "width", "height", "steps"] {
        fields.refuse(name, text_only)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn take(body: Value) -> Result<GenerateFields, ApiError> {
        GenerateFields::take(Fields::parse(body.to_string().as_bytes())?)
    }

    fn task(body: Value) -> Option<Task> {
        take(body).unwrap().task
    }

    #[track_caller]
    fn check_refused(body: Value, want: &str) {
        let error = take(body).unwrap_err();
        assert!(error.message().starts_with(want), "{}", error.message());
    }

    #[test]
    fn a_prompt_is_a_users_message() {
        let Some(Task::Chat(chat)) = task(json!({"prompt": "hi", "system": "Be kind."})) else {
            panic!("no chat");
        };
        let roles: Vec<_> = chat.messages().iter().map(|message| message.role.as_str()).collect();
        assert_eq!((roles.as_slice(), chat.last_content()), (&["system", "user"][..], "hi"));
    }

    #[test]
    fn raw_prompts_and_suffixes_leave_the_template_out() {
        assert_eq!(task(json!({"prompt": "a", "raw": true})), Some(Task::Raw("a".to_owned())));
        let filled = Task::FillIn { prompt: "a".to_owned(), suffix: "b".to_owned() };
        assert_eq!(task(json!({"prompt": "a", "suffix": "b"})), Some(filled));
        assert_eq!(task(json!({"prompt": ""})), None);
        check_refused(
            json!({"prompt": "a", "raw": true, "system": "b"}),
            "system and raw do not go together",
        );
        check_refused(
            json!({"prompt": "a", "suffix": "b", "think": true}),
            "think and suffix do not go together",
        );
    }

    #[test]
    fn what_cannot_be_honoured_is_refused() {
        check_refused(json!({"prompt": "a", "context": [1, 2]}), "context is not supported");
        check_refused(json!({"prompt": "a", "template": "{{ .Prompt }}"}), "template is not");
        check_refused(json!({"prompt": "a", "images": ["aGk="]}), "images is not supported");
        check_refused(json!({"prompt": "a", "width": 512}), "width is not supported");
        assert!(take(json!({"prompt": "a", "context": [], "template": ""})).is_ok());
    }
}
