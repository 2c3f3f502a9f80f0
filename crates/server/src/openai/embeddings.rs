//! `POST /v1/embeddings`

use axum::Json;
use serde::Serialize;
use terrace_engine::text::Prompt;
use utoipa::ToSchema;

use crate::api_error::{ApiResult, JsonReply};
use crate::docs::{EmbeddingBody, Refusals};
use crate::fields::{Fields, JsonRequest};
use crate::float_encoding::{FloatEncoding, base64_of};
use crate::language::{EmbeddingInput, MAX_INPUTS, Overlong, TextEmbeddings, take_model};
use crate::openai::embedding_usage::EmbeddingUsage;
use crate::openai::prompts::take_prompts;

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
    embedding: EncodedEmbedding,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum EncodedEmbedding {
    Numbers(Vec<f32>),
    /// The numbers as little-endian 32-bit floats, in base64.
    Base64(String),
}

/// The embeddings of texts.
#[utoipa::path(post, path = "/v1/embeddings", tag = "OpenAI", operation_id = "createEmbedding",
    request_body = EmbeddingBody,
    responses((status = 200, description = "one for each input", body = EmbeddingList), Refusals))]
pub async fn create(JsonRequest { state, log, fields }: JsonRequest) -> JsonReply<EmbeddingList> {
    let EmbeddingRequest { inputs, model, encoding, dimensions } = EmbeddingRequest::take(fields)?;
    let model = state.services.language.model(model.as_deref())?;
    let input = |prompt| EmbeddingInput { prompt, field: "input", overlong: Overlong::Refuse };
    let inputs = inputs.into_iter().map(input).collect();
    let embeddings = TextEmbeddings::compute(&state, &log, &model, inputs).await?;
    let usage = EmbeddingUsage::new(embeddings.prompt_tokens);
    let units = embeddings.units(dimensions)?.into_iter().enumerate();
    let data = units.map(|(index, embedding)| EmbeddingShape {
        object: "embedding",
        index,
        embedding: encoded(embedding, encoding),
    });
    let (data, model) = (data.collect(), model.name().to_owned());
    Ok(Json(EmbeddingList { object: "list", data, model, usage }))
}

#[derive(Debug)]
struct EmbeddingRequest {
    inputs: Vec<Prompt>,
    model: Option<String>,
    encoding: FloatEncoding,
    dimensions: Option<usize>,
}

impl EmbeddingRequest {
    fn take(mut fields: Fields) -> ApiResult<Self> {
        let inputs = take_prompts(&mut fields, "input", MAX_INPUTS)?;
        let model = take_model(&mut fields)?;
        let encoding = FloatEncoding::take(&mut fields)?;
        let dimensions = fields.take("dimensions")?;
        fields.ignore(&["user"]);
        fields.finish()?;
        Ok(Self { inputs, model, encoding, dimensions })
    }
}

fn encoded(embedding: Vec<f32>, encoding: FloatEncoding) -> EncodedEmbedding {
    match encoding {
        FloatEncoding::Float => EncodedEmbedding::Numbers(embedding),
        FloatEncoding::Base64 => EncodedEmbedding::Base64(base64_of(&embedding)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(body: &str) -> ApiResult<EmbeddingRequest> {
        EmbeddingRequest::take(Fields::parse(body.as_bytes())?)
    }

    #[test]
    fn what_is_left_out_has_openais_defaults() {
        let request = take(r#"{"input": "a", "user": "me"}"#).unwrap();
        assert_eq!((request.encoding, request.dimensions), (FloatEncoding::Float, None));
        let request = take(r#"{"input": ["a"], "encoding_format": "base64"}"#).unwrap();
        assert_eq!(request.encoding, FloatEncoding::Base64);
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
}
