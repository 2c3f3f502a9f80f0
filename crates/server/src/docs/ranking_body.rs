//! What `/v1/score` and `/v1/rerank` take.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::docs::generation_fields::Texts;

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"text_1": "a river", "text_2": ["a stream", "a bank"]}))]
pub struct ScoreBody {
    /// Which model, as `/v1/models` names it. May be left out while one model is served.
    model: Option<String>,
    /// One text, which is compared with each of `text_2`, or as many as `text_2` has.
    text_1: Texts,
    /// One text or several; at most 2,048 texts in all.
    text_2: Texts,
}

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"query": "a river", "documents": ["a bank", "a stream"], "top_n": 1}))]
pub struct RerankBody {
    /// Which model, as `/v1/models` names it. May be left out while one model is served.
    model: Option<String>,
    /// What the documents are compared with.
    query: DocumentBody,
    /// Texts; at most 2,047.
    documents: Vec<DocumentBody>,
    /// How many of the nearest to give; all where it is 0 or left out.
    top_n: Option<usize>,
    /// Whether the response repeats the documents; the default is true.
    return_documents: Option<bool>,
}

/// A text, or an object that has one.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(untagged)]
pub enum DocumentBody {
    Text(String),
    Object {
        /// The text.
        text: String,
    },
}
