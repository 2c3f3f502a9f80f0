//! `GET /api/tags`, `POST /api/show`, `GET /api/ps` and `GET /api/version`
//!
//! What Ollama tells of a model and this server does not keep (its family, its count of parameters,
//! how its file is quantised) is an empty text.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::api_error::JsonReply;
use crate::app_state::AppState;
use crate::docs::{OllamaRefusals, OllamaShowBody};
use crate::fields::JsonRequest;
use crate::language::ServedModel;
use crate::ollama::{model_name, timestamp};
use crate::openai::fill_in_the_middle;
use crate::status::version::Version;

/// The version of Ollama whose API these routes follow: clients look at it to know which fields
/// they may send. It is the first that gives log-probabilities.
const API_VERSION: &str = "0.12.11";

/// Models stay for as long as the server runs.
const NEVER: &str = "9999-01-01T00:00:00Z";

#[derive(Serialize, ToSchema)]
pub struct TagList {
    /// The models, in the order in which the server was given them.
    models: Vec<Tag>,
}

#[derive(Serialize, ToSchema)]
pub struct Tag {
    /// The name to ask for.
    name: String,
    /// The same.
    model: String,
    /// Since when it is served, as RFC 3339 has it.
    modified_at: String,
    /// Bytes of its weights in memory.
    size: usize,
    /// Tells models apart: of the name, the size and the chat template, not of the file.
    digest: String,
    details: Details,
}

/// Empty where it is not known.
#[derive(Serialize, ToSchema)]
pub struct Details {
    /// Empty: models are not built on one another here.
    parent_model: &'static str,
    /// Empty: the kind of file is not kept.
    format: &'static str,
    /// Empty: the family is not kept.
    family: &'static str,
    /// Empty: the family is not kept.
    families: Vec<&'static str>,
    /// Empty: the count is not kept.
    parameter_size: &'static str,
    /// Empty: weights may be packed anew when they are loaded.
    quantization_level: &'static str,
}

const UNKNOWN: Details = Details {
    parent_model: "",
    format: "",
    family: "",
    families: Vec::new(),
    parameter_size: "",
    quantization_level: "",
};

/// The models that are served, as Ollama lists them.
#[utoipa::path(get, path = "/api/tags", tag = "Ollama", operation_id = "ollamaTags",
    responses((status = 200, description = "all of them", body = TagList)))]
pub async fn tags(State(state): State<Arc<AppState>>) -> Json<TagList> {
    let modified_at = timestamp::of_unix_seconds(state.started);
    let tag = |model: &Arc<ServedModel>| {
        let name = model_name::tagged(model.name());
        Tag {
            model: name.clone(),
            name,
            modified_at: modified_at.clone(),
            size: model.engine().memory().weight_bytes,
            digest: digest(model),
            details: UNKNOWN,
        }
    };
    Json(TagList { models: state.services.language.models().iter().map(tag).collect() })
}

#[derive(Serialize, ToSchema)]
pub struct LoadedList {
    /// All models: they are loaded when the server starts.
    models: Vec<Loaded>,
}

#[derive(Serialize, ToSchema)]
pub struct Loaded {
    /// The name to ask for.
    name: String,
    /// The same.
    model: String,
    /// Bytes of its weights, its key/value memory and its steps.
    size: usize,
    /// As in `/api/tags`.
    digest: String,
    details: Details,
    /// In a far future: models stay for as long as the server runs.
    expires_at: &'static str,
    /// Those of the bytes that are on a GPU.
    size_vram: usize,
    /// Tokens of prompt and output together.
    context_length: usize,
}

/// The models that are loaded, as Ollama lists them: all of them.
#[utoipa::path(get, path = "/api/ps", tag = "Ollama", operation_id = "ollamaPs",
    responses((status = 200, description = "all of them", body = LoadedList)))]
pub async fn ps(State(state): State<Arc<AppState>>) -> Json<LoadedList> {
    let loaded = |model: &Arc<ServedModel>| {
        let name = model_name::tagged(model.name());
        let memory = model.engine().memory();
        let size = memory.weight_bytes + memory.kv_bytes + memory.scratch_bytes;
        Loaded {
            model: name.clone(),
            name,
            size,
            digest: digest(model),
            details: UNKNOWN,
            expires_at: NEVER,
            size_vram: if memory.device == "cpu" { 0 } else { size },
            context_length: model.context_tokens(),
        }
    };
    Json(LoadedList { models: state.services.language.models().iter().map(loaded).collect() })
}

#[derive(Serialize, ToSchema)]
pub struct Shown {
    /// The chat template, in Jinja; empty where there is none.
    template: String,
    /// What is set when a request leaves it out, a line each.
    parameters: String,
    details: Details,
    /// What is known of the model, under the names of GGUF's keys; its own stand under `terrace`.
    model_info: Map<String, Value>,
    /// `completion`, and as far as the model has them `tools`, `insert` and `thinking`.
    capabilities: Vec<&'static str>,
    /// Since when it is served, as RFC 3339 has it.
    modified_at: String,
}

/// What is known of a model, as Ollama shows it.
#[utoipa::path(post, path = "/api/show", tag = "Ollama", operation_id = "ollamaShow",
    request_body = OllamaShowBody,
    responses((status = 200, description = "the model", body = Shown), OllamaRefusals))]
pub async fn show(JsonRequest { state, mut fields, .. }: JsonRequest) -> JsonReply<Shown> {
    let name = model_name::take_name(&mut fields, &["model", "name"])?;
    fields
        .refuse("verbose", "vocabularies are not listed; GET /tokenizer_info has what there is")?;
    fields.refuse("system", "a model's system message is the request's to give")?;
    fields.finish()?;
    let model = model_name::find(&state, name.as_deref())?;
    let context = model.context_tokens();
    let model_info = json!({
        "general.architecture": "terrace",
        "general.basename": model.name(),
        "terrace.context_length": context,
        "terrace.vocab_size": model.vocab_size(),
    });
    let Value::Object(model_info) = model_info else { unreachable!("an object is written above") };
    Ok(Json(Shown {
        template: model.template_source().unwrap_or_default().to_owned(),
        parameters: format!("num_ctx {context}"),
        details: UNKNOWN,
        model_info,
        capabilities: capabilities(&model),
        modified_at: timestamp::of_unix_seconds(state.started),
    }))
}

/// Embeddings are not among them: there, `embedding` marks models that give nothing else.
fn capabilities(model: &ServedModel) -> Vec<&'static str> {
    let has_template = model.template_source().is_some();
    let all = [
        ("completion", true),
        ("tools", has_template),
        ("insert", fill_in_the_middle::is_known_to(model)),
        ("thinking", model.thinks()),
    ];
    all.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
}

fn digest(model: &ServedModel) -> String {
    let mut digest = Sha256::new();
    digest.update(model.name());
    digest.update(model.engine().memory().weight_bytes.to_le_bytes());
    digest.update(model.template_source().unwrap_or_default());
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The version of Ollama whose API is followed; `/version` is this server's own.
#[utoipa::path(get, path = "/api/version", tag = "Ollama", operation_id = "ollamaVersion",
    responses((status = 200, description = "the version", body = Version)))]
pub async fn version() -> Json<Version> {
    Json(Version { version: API_VERSION })
}
