//! `POST /api/generate`
//!
//! A prompt goes through the model's chat template as a user's message, unless it is `raw` or
//! stands before a `suffix`.

use serde_json::{Map, Value};

use crate::api_error::{ApiError, ApiResult, Reply};
use crate::chat::Conversation;
use crate::docs::{OllamaGenerateBody, OllamaRefusals};
use crate::fields::{Fields, JsonRequest};
use crate::ollama::common_fields::{CommonFields, Task};
use crate::ollama::line_shape::GenerateLine;
use crate::ollama::line_writer::LineKind;
use crate::ollama::think::Think;

/// Answers a prompt, as Ollama does.
#[utoipa::path(post, path = "/api/generate", tag = "Ollama", operation_id = "ollamaGenerate",
    request_body = OllamaGenerateBody, responses(OllamaRefusals, (status = 200,
        description = "the output; streamed, a line for each delta",
        content((GenerateLine = "application/json"), (GenerateLine = "application/x-ndjson")))))]
pub async fn create(JsonRequest { state, log, fields }: JsonRequest) -> Reply {
    let (common, task) = take_request(fields)?;
    common.respond(LineKind::Generate, task, &state, log).await
}

/// There is no task where there is no prompt.
fn take_request(mut fields: Fields) -> ApiResult<(CommonFields, Option<Task>)> {
    let common = CommonFields::take(&mut fields)?;
    let task = take_task(&mut fields, &common.think)?;
    refuse_unsupported(&mut fields)?;
    fields.finish()?;
    Ok((common, task))
}

fn take_task(fields: &mut Fields, think: &Think) -> ApiResult<Option<Task>> {
    let mut text = |name: &str| -> ApiResult<Option<String>> {
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
    Ok(match (prompt, suffix) {
        (prompt, Some(suffix)) => Some(Task::FillIn { prompt: prompt.unwrap_or_default(), suffix }),
        (None, None) => None,
        (Some(prompt), None) if is_raw => Some(Task::Raw(prompt)),
        (Some(prompt), None) => {
            Some(Task::Chat { conversation: conversation(system, prompt)?, offer: None })
        }
    })
}

fn conversation(system: Option<String>, prompt: String) -> ApiResult<Conversation> {
    let message = |role: &str, content: String| {
        let fields = [("role", role.to_owned()), ("content", content)];
        fields.map(|(name, text)| (name.to_owned(), Value::String(text))).into_iter().collect()
    };
    let system = system.map(|text| message("system", text));
    let messages: Vec<Map<_, _>> = system.into_iter().chain([message("user", prompt)]).collect();
    Conversation::new(messages)
}

/// Ollama's fields that would change the output and that we cannot honour.
fn refuse_unsupported(fields: &mut Fields) -> ApiResult<()> {
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

    fn take(body: Value) -> ApiResult<Option<Task>> {
        take_request(Fields::parse(body.to_string().as_bytes())?).map(|(_, task)| task)
    }

    fn task(body: Value) -> Option<Task> {
        take(body).unwrap()
    }

    #[track_caller]
    fn check_refused(body: Value, want: &str) {
        take(body).unwrap_err().check_begins(want);
    }

    #[test]
    fn a_prompt_is_a_users_message() {
        let task = task(json!({"prompt": "hi", "system": "Be kind."}));
        let Some(Task::Chat { conversation: chat, .. }) = task else { panic!("no chat") };
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
