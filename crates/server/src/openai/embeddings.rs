//! `POST /v1/embeddings`

use axum::Json;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;
use terrace_engine::text::Prompt;
use utoipa::ToSchema;

use crate::api_error::{ApiError, ApiResult, JsonReply};
use crate::docs::{EmbeddingBody, Refusals};
use crate::fields::{Fields, JsonRequest};
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
        embedding: encoding.encode(embedding),
    });
    let (data, model) = (data.collect(), model.name().to_owned());
    Ok(Json(EmbeddingList { object: "list", data, model, usage }))
}

#[derive(Debug)]
struct EmbeddingRequest {
    inputs: Vec<Prompt>,
    model: Option<String>,
    encoding: Encoding,
    dimensions: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Float,
    Base64,
}

impl EmbeddingRequest {
    fn take(mut fields: Fields) -> ApiResult<Self> {
        let inputs = take_prompts(&mut fields, "input", MAX_INPUTS)?;
        let model = take_model(&mut fields)?;
        let encoding = Encoding::take(&mut fields)?;
        let dimensions = fields.take("dimensions")?;
        fields.ignore(&["user"]);
        fields.finish()?;
        Ok(Self { inputs, model, encoding, dimensions })
    }
}

impl Encoding {
    fn take(fields: &mut Fields) -> ApiResult<Self> {
        match fields.take::<String>("encoding_format")?.as_deref() {
            None | Some("float") => Ok(Self::Float),
            Some("base64") => Ok(Self::Base64),
            Some(other) => {
                let message = format!("encoding_format is {other:?}: give \"float\" or \"base64\"");
                Err(ApiError::invalid("encoding_format", message))
            }
        }
    }

    fn encode(self, embedding: Vec<f32>) -> EncodedEmbedding {
        match self {
            Self::Float => EncodedEmbedding::Numbers(embedding),
            Self::Base64 => {
                let bytes: Vec<u8> =
                    embedding.iter().flat_map(|value| value.to_le_bytes()).collect();
                EncodedEmbedding::Base64(BASE64_STANDARD.encode(bytes))
            }
        }
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
    fn base64_has_the_bytes_of_the_numbers() {
        let encoded = Encoding::Base64.encode(vec![1.0, -2.0]);
        assert_eq!(serde_json::to_string(&encoded).unwrap(), r#""AACAPwAAAMA=""#);
    }
}
