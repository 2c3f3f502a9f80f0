//! `POST /v1/embeddings`
//!
//! A text's embedding is the model's last hidden state, after the final norm, at the text's last
//! token: the only one that has seen all of it. It is brought to length 1, so that the product of
//! two embeddings is the cosine of their angle.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use terrace_engine::text::Prompt;
use utoipa::ToSchema;

use crate::answers::{off_thread, within_limits};
use crate::api_error::ApiError;
use crate::docs::{EmbeddingBody, Refusals};
use crate::fields::Fields;
use crate::logging::RequestLog;
use crate::openai::prompts::take_prompts;
use crate::served_model::ServedModel;
use crate::state::AppState;

/// As OpenAI has it.
const MAX_INPUTS: usize = 2048;

/// Inputs of one request that the engine has at a time; the others do not crowd its queue.
const INPUTS_AT_ONCE: usize = 32;

#[derive(Debug, Serialize, ToSchema)]
pub struct EmbeddingList {
    /// `list`
    object: &'static str,
    /// One for each input, in their order.
    data: Vec<EmbeddingShape>,
    /// The model that made them.
    model: String,
    usage: EmbeddingUsage,
}

#[derive(Debug, Serialize, ToSchema)]
struct EmbeddingShape {
    /// `embedding`
    object: &'static str,
    /// Which input it belongs to.
    index: usize,
    embedding: EmbeddingForm,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum EmbeddingForm {
    Numbers(Vec<f32>),
    /// The numbers as little-endian 32-bit floats, in base64.
    Base64(String),
}

/// Tokens read.
#[derive(Debug, Serialize, ToSchema)]
struct EmbeddingUsage {
    /// Of all inputs.
    prompt_tokens: usize,
    /// The same: nothing is made.
    total_tokens: usize,
}

/// The embeddings of texts.
#[utoipa::path(
    post, path = "/v1/embeddings", tag = "OpenAI", operation_id = "createEmbedding",
    request_body = EmbeddingBody,
    responses((status = 200, description = "one for each input", body = EmbeddingList), Refusals)
)]
pub async fn create(
    State(state): State<Arc<AppState>>,
    Extension(log): Extension<Arc<RequestLog>>,
    fields: Fields,
) -> Result<Json<EmbeddingList>, ApiError> {
    let EmbeddingRequest { inputs, model, encoding, dimensions } = EmbeddingRequest::take(fields)?;
    let model = state.model(model.as_deref())?;
    log.set_model(model.name());
    let embeddings = stream::iter(inputs)
        .map(|input| embedding(Arc::clone(&model), input))
        .buffered(INPUTS_AT_ONCE)
        .try_collect::<Vec<_>>();
    let embeddings = within_limits(&state, &log, embeddings).await?;

    let prompt_tokens = embeddings.iter().map(|(tokens, _)| tokens).sum();
    log.add_prompt_tokens(prompt_tokens);
    let data = embeddings.into_iter().enumerate().map(|(index, (_, hidden))| {
        let embedding = encoding.form(unit(hidden, dimensions)?);
        Ok(EmbeddingShape { object: "embedding", index, embedding })
    });
    Ok(Json(EmbeddingList {
        object: "list",
        data: data.collect::<Result<_, ApiError>>()?,
        model: model.name().to_owned(),
        usage: EmbeddingUsage { prompt_tokens, total_tokens: prompt_tokens },
    }))
}

/// The input's tokens, and the model's state after them.
async fn embedding(model: Arc<ServedModel>, input: Prompt) -> Result<(usize, Vec<f32>), ApiError> {
    let pending = off_thread(move || Ok(model.embed(input)?)).await;
    let pending = pending.map_err(|error| error.about("prompt", "input"))?;
    let tokens = pending.prompt_tokens();
    Ok((tokens, pending.wait().await?))
}

#[derive(Debug)]
struct EmbeddingRequest {
    inputs: Vec<Prompt>,
    model: Option<String>,
    encoding: Encoding,
    dimensions: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    #[default]
    Float,
    Base64,
}

impl EmbeddingRequest {
    fn take(mut fields: Fields) -> Result<Self, ApiError> {
        let inputs = take_prompts(&mut fields, "input")?;
        if inputs.len() > MAX_INPUTS {
            let message = format!("input has {} parts, the limit is {MAX_INPUTS}", inputs.len());
            return Err(ApiError::invalid("input", message));
        }
        let model = fields.take::<String>("model")?.filter(|name| !name.is_empty());
        let encoding = fields.take("encoding_format")?.unwrap_or_default();
        let dimensions = fields.take("dimensions")?;
        fields.ignore(&["user"]);
        fields.finish()?;
        Ok(Self { inputs, model, encoding, dimensions })
    }
}

impl Encoding {
    fn form(self, embedding: Vec<f32>) -> EmbeddingForm {
        match self {
            Self::Float => EmbeddingForm::Numbers(embedding),
            Self::Base64 => {
                let bytes: Vec<u8> =
                    embedding.iter().flat_map(|value| value.to_le_bytes()).collect();
                EmbeddingForm::Base64(BASE64_STANDARD.encode(bytes))
            }
        }
    }
}

/// The first `dimensions` numbers, all where it says nothing, brought to length 1.
fn unit(mut hidden: Vec<f32>, dimensions: Option<usize>) -> Result<Vec<f32>, ApiError> {
    let all = hidden.len();
    match dimensions {
        Some(wanted) if wanted == 0 || wanted > all => {
            let message = format!("dimensions is {wanted}: this model has 1 to {all}");
            return Err(ApiError::invalid("dimensions", message));
        }
        Some(wanted) => hidden.truncate(wanted),
        None => {}
    }
    let length = hidden.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    // A state of nothing but zeros has no direction and stays as it is.
    let scale = if length > 0.0 { (1.0 / length) as f32 } else { 1.0 };
    hidden.iter_mut().for_each(|value| *value *= scale);
    Ok(hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(body: &str) -> Result<EmbeddingRequest, ApiError> {
        EmbeddingRequest::take(Fields::parse(body.as_bytes())?)
    }

    #[test]
    fn what_is_left_out_has_openais_defaults() {
        let request = take(r#"{"input": "a", "user": "me"}"#).unwrap();
        assert_eq!((request.encoding, request.dimensions), (Encoding::Float, None));
        let request = take(r#"{"input": ["a"], "encoding_format": "base64"}"#).unwrap();
        assert_eq!(request.encoding, Encoding::Base64);
    }

    #[test]
    fn wrong_requests_are_refused() {
        for body in [
            "{}",
            r#"{"input": "a", "encoding_format": "hex"}"#,
            r#"{"input": "a", "dimensions": -1}"#,
            r#"{"input": "a", "temperature": 1}"#,
        ] {
            assert!(take(body).is_err(), "{body}");
        }
        let many = serde_json::json!({"input": vec!["a"; MAX_INPUTS + 1]}).to_string();
        assert!(take(&many).is_err());
    }

    #[test]
    fn embeddings_have_length_one() {
        assert_eq!(unit(vec![3.0, 4.0], None).unwrap(), [0.6, 0.8]);
        assert_eq!(unit(vec![3.0, 4.0], Some(1)).unwrap(), [1.0]);
        assert_eq!(unit(vec![0.0, 0.0], None).unwrap(), [0.0, 0.0]);
        assert!(unit(vec![3.0, 4.0], Some(0)).is_err());
        assert!(unit(vec![3.0, 4.0], Some(3)).is_err());
    }

    #[test]
    fn base64_has_the_bytes_of_the_numbers() {
        let form = Encoding::Base64.form(vec![1.0, -2.0]);
        assert_eq!(serde_json::to_string(&form).unwrap(), r#""AACAPwAAAMA=""#);
    }
}
