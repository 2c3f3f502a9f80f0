//! What `/api/chat` and `/api/generate` both take, and do with it in the same way.

use std::sync::Arc;

use serde_json::{Map, Value};
use terrace_engine::guidance::{Grammar, GrammarRule};
use terrace_engine::text::Prompt;
use terrace_model::RenderOptions;

use crate::api_error::{ApiError, ApiResult, Reply};
use crate::app_state::AppState;
use crate::chat::{ChatOutputs, ChatRequest, Conversation};
use crate::fields::{Fields, Kind};
use crate::language::{RequestOptions, RequestOutputs, RouteDefaults, ServedModel};
use crate::middleware::RequestLog;
use crate::ollama::keep_alive::KeepAlive;
use crate::ollama::line_writer::{LineKind, LineWriter, loaded};
use crate::ollama::model_name;
use crate::ollama::sampling_options::{SamplingOptions, in_clients_words};
use crate::ollama::think::Think;
use crate::openai::fill_in_the_middle;
use crate::openai::logprobs::take_logprobs;
use crate::tools::ToolOffer;

#[derive(Debug)]
pub struct CommonFields {
    model: Option<String>,
    format: Option<Grammar>,
    sampling: SamplingOptions,
    logprobs: Option<usize>,
    pub think: Think,
    pub stream: bool,
    pub keep_alive: KeepAlive,
}

/// What the model goes on from.
#[derive(Debug, PartialEq)]
pub enum Task {
    Chat { conversation: Conversation, offer: Option<ToolOffer> },
    Raw(String),
    FillIn { prompt: String, suffix: String },
}

impl CommonFields {
    pub fn take(fields: &mut Fields) -> ApiResult<Self> {
        let common = Self {
            model: model_name::take_name(fields, &["model"])?,
            format: take_format(fields)?,
            sampling: SamplingOptions::take(fields)?,
            logprobs: take_logprobs(fields)?,
            think: Think::take(fields)?,
            stream: take_stream(fields)?,
            keep_alive: KeepAlive::take(fields)?,
        };
        refuse_shortening(fields)?;
        Ok(common)
    }

    /// The output of the task; without one only the model is requested, and it is loaded.
    pub async fn respond(
        self,
        kind: LineKind,
        task: Option<Task>,
        state: &AppState,
        log: Arc<RequestLog>,
    ) -> Reply {
        let model = model_name::find(state, self.model.as_deref())?;
        let name = self.model.unwrap_or_else(|| model.name().to_owned());
        let Some(task) = task else {
            self.keep_alive.check()?;
            return Ok(loaded(kind, &name));
        };
        self.sampling.check_context(&model)?;
        self.think.check(&model)?;
        let options = self.sampling.request(&model, self.format, self.logprobs);
        let started = log.started;
        let outputs = match task {
            Task::Chat { conversation, offer } => {
                let mut render = RenderOptions::next_message();
                self.think.apply(&mut render);
                let chat = ChatRequest { conversation, render, offer, options };
                chat.start(state, log, RouteDefaults::ollama()).await
            }
            Task::Raw(prompt) => plain(state, log, &model, Prompt::Text(prompt), &options).await,
            Task::FillIn { prompt, suffix } => {
                let prompt = vec![Prompt::Text(prompt)];
                let mut prompts = fill_in_the_middle::prompts(&model, prompt, &suffix)?;
                plain(state, log, &model, prompts.remove(0), &options).await
            }
        };
        let outputs = outputs.map_err(in_clients_words)?;
        let names = self.logprobs.map(|_| outputs.model().token_names());
        LineWriter::new(kind, name, names, started).respond(outputs, self.stream).await
    }
}

/// Goes on with a prompt that is no chat.
async fn plain(
    state: &AppState,
    log: Arc<RequestLog>,
    model: &Arc<ServedModel>,
    prompt: Prompt,
    options: &RequestOptions,
) -> ApiResult<ChatOutputs> {
    let request = options.text_request(prompt, &state.config.presets, RouteDefaults::ollama());
    let outputs =
        RequestOutputs::submit(state, log, Arc::clone(model), vec![request], options).await?;
    Ok(ChatOutputs::plain(outputs, Arc::clone(model)))
}

/// What the output must look like: `"json"`, or a JSON schema.
fn take_format(fields: &mut Fields) -> ApiResult<Option<Grammar>> {
    const OPTION: &str = "format";
    let rule = match fields.kind_of(OPTION) {
        Some(Kind::String) => match fields.take::<String>(OPTION)?.as_deref() {
            None | Some("") => return Ok(None),
            Some("json") => GrammarRule::json_object(),
            Some(other) => {
                let message = format!("format is {other:?}: it must be \"json\" or a JSON schema");
                return Err(ApiError::invalid(OPTION, message));
            }
        },
        _ => match fields.take::<Map<String, Value>>(OPTION)? {
            None => return Ok(None),
            Some(schema) => GrammarRule::JsonSchema(Value::Object(schema)),
        },
    };
    Ok(Some(Grammar { option: OPTION, rule }))
}

/// Whether the output is streamed; it is unless the request says otherwise.
fn take_stream(fields: &mut Fields) -> ApiResult<bool> {
    Ok(fields.take_flag("stream")?.unwrap_or(true))
}

/// What Ollama does to a conversation that is too long, and this server does not.
fn refuse_shortening(fields: &mut Fields) -> ApiResult<()> {
    let reason = "a prompt that is longer than the context is refused, with the numbers";
    fields.refuse("truncate", reason)?;
    fields.refuse("shift", reason)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fields::tests::fields;

    #[test]
    fn a_format_is_json_or_a_schema() {
        let rule = |format: Value| {
            let grammar = take_format(&mut fields(json!({ "format": format })));
            grammar.map(|grammar| grammar.map(|grammar| (grammar.option, grammar.rule)))
        };
        assert_eq!(rule(json!("json")), Ok(Some(("format", GrammarRule::json_object()))));
        let schema = json!({"type": "array"});
        let want = GrammarRule::JsonSchema(schema.clone());
        assert_eq!(rule(schema), Ok(Some(("format", want))));
        assert_eq!(rule(json!("")), Ok(None));
        assert_eq!(rule(Value::Null), Ok(None));
        let error = rule(json!("xml")).unwrap_err();
        assert_eq!(error.message(), "format is \"xml\": it must be \"json\" or a JSON schema");
        let error = rule(json!(3)).unwrap_err();
        assert_eq!(error.message(), "format must be an object, not a number (3)");
    }
}
