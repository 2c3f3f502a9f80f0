//! `POST /v1/rerank`: documents in the order in which they are near a query, in the shape of Jina's
//! and Cohere's APIs.
//!
//! A document's score is the cosine of the angle between its embedding and the query's; it is as
//! good as the model's embeddings are.

use axum::Json;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::api_error::{ApiError, ApiResult, JsonReply};
use crate::docs::{Refusals, RerankBody};
use crate::fields::{Fields, JsonRequest};
use crate::ids;
use crate::language::{EmbeddingInput, TextEmbeddings, cosine, take_model};
use crate::openai::embedding_usage::EmbeddingUsage;
use crate::openai::score::refuse_truncation;

#[derive(Serialize, ToSchema)]
pub struct Ranking {
    /// Names this response and no other.
    id: String,
    /// The model that made the embeddings.
    model: String,
    /// The documents, the nearest first.
    results: Vec<Ranked>,
    usage: EmbeddingUsage,
}

#[derive(Serialize, ToSchema)]
struct Ranked {
    /// Which document of the request.
    index: usize,
    /// The document, unless `return_documents` is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<Document>,
    /// The cosine of the angle between its embedding and the query's, from -1 to 1.
    relevance_score: f64,
}

#[derive(Serialize, ToSchema)]
struct Document {
    /// What it says.
    text: String,
}

/// Documents in the order in which they are near a query.
#[utoipa::path(post, path = "/v1/rerank", tag = "Embeddings", operation_id = "createRerank",
    request_body = RerankBody,
    responses((status = 200, description = "the nearest first", body = Ranking), Refusals))]
pub async fn create(JsonRequest { state, log, fields }: JsonRequest) -> JsonReply<Ranking> {
    let request = RerankRequest::take(fields)?;
    let RerankRequest { model, query, documents, top_n, returns_documents } = request;
    let model = state.services.language.model(model.as_deref())?;
    let texts = documents.iter().cloned().map(|text| EmbeddingInput::text(text, "documents"));
    let inputs = [EmbeddingInput::text(query, "query")].into_iter().chain(texts).collect();
    let embeddings = TextEmbeddings::compute(&state, &log, &model, inputs).await?;
    let usage = EmbeddingUsage::new(embeddings.prompt_tokens);
    let units = embeddings.units(None)?;
    let (query, others) = units.split_first().expect("the query is the first");
    let scores = others.iter().map(|other| cosine(query, other)).collect();
    let results = nearest(scores, top_n).into_iter().map(|(index, relevance_score)| {
        let document = returns_documents.then(|| Document { text: documents[index].clone() });
        Ranked { index, document, relevance_score }
    });
    Ok(Json(Ranking {
        id: ids::unique("rerank-"),
        model: model.name().to_owned(),
        results: results.collect(),
        usage,
    }))
}

/// The best so many with their indices, best first; of equals the earlier.
fn nearest(scores: Vec<f64>, count: usize) -> Vec<(usize, f64)> {
    let mut ranked: Vec<_> = scores.into_iter().enumerate().collect();
    ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    ranked.truncate(count);
    ranked
}

#[derive(Debug)]
struct RerankRequest {
    model: Option<String>,
    query: String,
    documents: Vec<String>,
    top_n: usize,
    returns_documents: bool,
}

impl RerankRequest {
    fn take(mut fields: Fields) -> ApiResult<Self> {
        let query = text_of(fields.require("query")?, "query")?;
        let documents: Vec<Value> = fields.require("documents")?;
        if documents.is_empty() {
            return Err(ApiError::invalid("documents", "documents is an empty list"));
        }
        let documents = documents.into_iter().enumerate();
        let documents = documents
            .map(|(index, document)| text_of(document, &format!("documents[{index}]")))
            .collect::<Result<_, _>>()?;
        // Zero is what some clients send for all.
        let top_n = fields.take::<usize>("top_n")?.filter(|&count| count > 0);
        let request = Self {
            query,
            documents,
            top_n: top_n.unwrap_or(usize::MAX),
            returns_documents: fields.take("return_documents")?.unwrap_or(true),
            model: take_model(&mut fields)?,
        };
        refuse_truncation(&mut fields)?;
        fields.finish()?;
        Ok(request)
    }
}

/// A text, alone or as `{"text": ..}`.
fn text_of(value: Value, path: &str) -> ApiResult<String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Object(mut fields) => match fields.remove("text") {
            Some(Value::String(text)) => Ok(text),
            _ => Err(ApiError::invalid(path, format!("{path}.text must be a string"))),
        },
        _ => {
            let message = format!("{path} must be a string, or an object with a text");
            Err(ApiError::invalid(path, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn take(body: Value) -> ApiResult<RerankRequest> {
        RerankRequest::take(Fields::parse(body.to_string().as_bytes())?)
    }

    #[test]
    fn the_nearest_come_first() {
        let scores = || vec![0.1, 0.9, -0.2, 0.9];
        assert_eq!(nearest(scores(), 9), [(1, 0.9), (3, 0.9), (0, 0.1), (2, -0.2)]);
        assert_eq!(nearest(scores(), 1), [(1, 0.9)]);
    }

    #[test]
    fn documents_are_texts_or_have_one() {
        let request = take(json!({"query": {"text": "q"}, "documents": ["a", {"text": "b"}]}));
        let request = request.unwrap();
        assert_eq!(
            (request.query.as_str(), request.documents),
            ("q", vec!["a".into(), "b".into()])
        );
        assert!(request.returns_documents && request.top_n == usize::MAX);
        let error = take(json!({"query": "q", "documents": ["a", {"image": "b"}]})).unwrap_err();
        assert_eq!(error.message(), "documents[1].text must be a string");
        for wrong in [
            json!({"documents": ["a"]}),
            json!({"query": "q"}),
            json!({"query": "q", "documents": []}),
            json!({"query": "q", "documents": "a"}),
            json!({"query": "q", "documents": ["a"], "top_n": -1}),
            json!({"query": "q", "documents": ["a"], "max_tokens_per_doc": 5}),
            json!({"query": "q", "documents": vec!["a"; 2049]}),
        ] {
            assert!(take(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
