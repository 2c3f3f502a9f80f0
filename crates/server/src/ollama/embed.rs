//! `POST /api/embed`, and its older version `POST /api/embeddings`

use std::time::Duration;

use axum::Json;
use serde::Serialize;
use terrace_engine::text::Prompt;
use utoipa::ToSchema;

use crate::api_error::{ApiError, ApiResult, JsonReply};
use crate::app_state::AppState;
use crate::docs::{OllamaEmbedBody, OllamaEmbeddingsBody, OllamaRefusals};
use crate::fields::{Fields, JsonRequest};
use crate::language::{EmbeddingInput, MAX_INPUTS, Overlong, TextEmbeddings};
use crate::middleware::RequestLog;
use crate::ollama::keep_alive::KeepAlive;
use crate::ollama::model_name;
use crate::ollama::sampling_options::SamplingOptions;

#[derive(Serialize, ToSchema)]
pub struct Embeddings {
    /// The model, by the name that was requested.
    model: String,
    /// One for each input, of length 1.
    embeddings: Vec<Vec<f32>>,
    /// From the request to the last embedding, in nanoseconds.
    total_duration: u64,
    /// Always 0: models are loaded before.
    load_duration: u64,
    /// Tokens of all inputs.
    prompt_eval_count: usize,
}

#[derive(Serialize, ToSchema)]
pub struct OneEmbedding {
    /// Of the prompt, of length 1; nothing where there was none.
    embedding: Vec<f32>,
}

/// The embeddings of texts, as Ollama gives them.
#[utoipa::path(post, path = "/api/embed", tag = "Ollama", operation_id = "ollamaEmbed",
    request_body = OllamaEmbedBody, responses(OllamaRefusals,
        (status = 200, description = "one for each input", body = Embeddings)))]
pub async fn embed(JsonRequest { state, log, mut fields }: JsonRequest) -> JsonReply<Embeddings> {
    let texts = fields.take_texts("input")?.ok_or_else(|| ApiError::missing("input"))?;
    if texts.len() > MAX_INPUTS {
        let message = format!("input has {} texts, the limit is {MAX_INPUTS}", texts.len());
        return Err(ApiError::invalid("input", message));
    }
    let dimensions = fields.take("dimensions")?;
    let truncates = fields.take("truncate")?.unwrap_or(true);
    let overlong = if truncates { Overlong::Truncate } else { Overlong::Refuse };
    let request = EmbedRequest { texts, field: "input", overlong, dimensions };
    let (model, embeddings, prompt_eval_count) = request.embeddings(&state, &log, fields).await?;
    let total_duration = nanoseconds(log.started.elapsed());
    Ok(Json(Embeddings { model, embeddings, total_duration, load_duration: 0, prompt_eval_count }))
}

/// The embedding of one text; `/api/embed` takes several.
#[utoipa::path(post, path = "/api/embeddings", tag = "Ollama", operation_id = "ollamaEmbeddings",
    request_body = OllamaEmbeddingsBody,
    responses((status = 200, description = "the embedding", body = OneEmbedding), OllamaRefusals))]
pub async fn embeddings(
    JsonRequest { state, log, mut fields }: JsonRequest,
) -> JsonReply<OneEmbedding> {
    let prompt = fields.take::<String>("prompt")?.filter(|prompt| !prompt.is_empty());
    let texts = prompt.into_iter().collect();
    let request =
        EmbedRequest { texts, field: "prompt", overlong: Overlong::Truncate, dimensions: None };
    let (_, mut embeddings, _) = request.embeddings(&state, &log, fields).await?;
    Ok(Json(OneEmbedding { embedding: embeddings.pop().unwrap_or_default() }))
}

struct EmbedRequest {
    texts: Vec<String>,
    field: &'static str,
    overlong: Overlong,
    dimensions: Option<usize>,
}

impl EmbedRequest {
    /// The model's name as it was requested, the embeddings, and the tokens of all texts.
    async fn embeddings(
        self,
        state: &AppState,
        log: &RequestLog,
        mut fields: Fields,
    ) -> ApiResult<(String, Vec<Vec<f32>>, usize)> {
        let name = model_name::take_name(&mut fields, &["model"])?;
        let sampling = SamplingOptions::take(&mut fields)?;
        KeepAlive::take(&mut fields)?;
        fields.finish()?;
        let model = model_name::find(state, name.as_deref())?;
        sampling.check_context(&model)?;
        let Self { texts, field, overlong, dimensions } = self;
        let input = |text| EmbeddingInput { prompt: Prompt::Text(text), field, overlong };
        let inputs = texts.into_iter().map(input).collect();
        let embeddings = TextEmbeddings::compute(state, log, &model, inputs).await?;
        let prompt_tokens = embeddings.prompt_tokens;
        let name = name.unwrap_or_else(|| model.name().to_owned());
        Ok((name, embeddings.units(dimensions)?, prompt_tokens))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
