//! `POST /v1/score`: how near texts are to each other, in vLLM's shape.
//!
//! A score is the cosine of the angle between two embeddings, from -1 to 1; it is as good as the
//! model's embeddings are.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api_error::{ApiError, ApiResult, JsonReply};
use crate::app_state::unix_seconds;
use crate::docs::{Refusals, ScoreBody};
use crate::fields::{Fields, JsonRequest};
use crate::ids;
use crate::language::{EmbeddingInput, TextEmbeddings, cosine, take_model};
use crate::openai::embedding_usage::EmbeddingUsage;

#[derive(Serialize, ToSchema)]
pub struct ScoreList {
    /// Names this response and no other.
    id: String,
    /// `list`
    object: &'static str,
    /// When it was begun, in Unix seconds.
    created: u64,
    /// The model that made the embeddings.
    model: String,
    /// One for each pair, in the order of `text_2`.
    data: Vec<Score>,
    usage: EmbeddingUsage,
}

#[derive(Serialize, ToSchema)]
struct Score {
    /// Which pair.
    index: usize,
    /// `score`
    object: &'static str,
    /// The cosine of the angle between the embeddings, from -1 to 1.
    score: f64,
}

/// How near texts are to each other.
#[utoipa::path(post, path = "/v1/score", tag = "Embeddings", operation_id = "createScore",
    request_body = ScoreBody,
    responses((status = 200, description = "one for each pair", body = ScoreList), Refusals))]
pub async fn create(JsonRequest { state, log, mut fields }: JsonRequest) -> JsonReply<ScoreList> {
    let Pairs { first, second } = Pairs::take(&mut fields)?;
    let model = take_model(&mut fields)?;
    refuse_truncation(&mut fields)?;
    fields.finish()?;
    let model = state.services.language.model(model.as_deref())?;
    let firsts = first.len();
    let first = first.into_iter().map(|text| EmbeddingInput::text(text, "text_1"));
    let second = second.into_iter().map(|text| EmbeddingInput::text(text, "text_2"));
    let inputs = first.chain(second).collect();
    let embeddings = TextEmbeddings::compute(&state, &log, &model, inputs).await?;
    let usage = EmbeddingUsage::new(embeddings.prompt_tokens);
    let units = embeddings.units(None)?;
    let (first, second) = units.split_at(firsts);
    // One text is compared with all others.
    let pairs = first.iter().cycle().zip(second).enumerate();
    let data = pairs.map(|(index, (a, b))| Score { index, object: "score", score: cosine(a, b) });
    Ok(Json(ScoreList {
        id: ids::unique("score-"),
        object: "list",
        created: unix_seconds(),
        model: model.name().to_owned(),
        data: data.collect(),
        usage,
    }))
}

/// Fields of other servers that only say how texts are shortened, or in which order they run.
pub fn refuse_truncation(fields: &mut Fields) -> ApiResult<()> {
    let reason = "a text that is longer than the model reads is refused, not shortened";
    fields.refuse("truncate_prompt_tokens", reason)?;
    fields.refuse("max_tokens_per_doc", reason)?;
    fields.ignore(&["user", "priority"]);
    Ok(())
}

#[derive(Debug, PartialEq)]
struct Pairs {
    /// One text, or as many as `second` has.
    first: Vec<String>,
    second: Vec<String>,
}

impl Pairs {
    fn take(fields: &mut Fields) -> ApiResult<Self> {
        let mut texts = |name: &str| match fields.take_texts(name)? {
            Some(texts) if !texts.is_empty() => Ok(texts),
            Some(_) => Err(ApiError::invalid(name, format!("{name} is an empty list"))),
            None => Err(ApiError::missing(name)),
        };
        let (first, second) = (texts("text_1")?, texts("text_2")?);
        if first.len() != 1 && first.len() != second.len() {
            let message = format!(
                "text_1 has {} texts and text_2 {}: give one text_1, or as many as text_2 has",
                first.len(),
                second.len()
            );
            return Err(ApiError::invalid("text_1", message));
        }
        Ok(Self { first, second })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(body: &str) -> ApiResult<Pairs> {
        Pairs::take(&mut Fields::parse(body.as_bytes())?)
    }

    #[track_caller]
    fn check(body: &str, first: &[&str], second: &[&str]) {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(take(body), Ok(Pairs { first: owned(first), second: owned(second) }));
    }

    #[test]
    fn one_text_or_as_many() {
        check(r#"{"text_1": "a", "text_2": "b"}"#, &["a"], &["b"]);
        check(r#"{"text_1": "a", "text_2": ["b", "c"]}"#, &["a"], &["b", "c"]);
        check(r#"{"text_1": ["a", "d"], "text_2": ["b", "c"]}"#, &["a", "d"], &["b", "c"]);
        for wrong in [
            r#"{"text_1": ["a", "b"], "text_2": "c"}"#,
            r#"{"text_1": ["a", "b"], "text_2": ["c", "d", "e"]}"#,
            r#"{"text_1": [], "text_2": "c"}"#,
            r#"{"text_1": "c"}"#,
            r#"{"text_1": 1, "text_2": "c"}"#,
        ] {
            assert!(take(wrong).is_err(), "{wrong}");
        }
    }
}
