//! `POST /tokenize` and `POST /detokenize`: the model's tokenizer, as other servers offer it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use terrace_engine::TokenId;
use terrace_model::{AddSpecial, RenderOptions};
use utoipa::ToSchema;

use crate::answers::off_thread;
use crate::api_error::ApiError;
use crate::conversation::{Conversation, take_render_options};
use crate::docs::{DetokenizeBody, Refusals, TokenizeBody};
use crate::fields::Fields;
use crate::state::AppState;

#[derive(Serialize, ToSchema)]
pub struct Tokenized {
    /// Their ids.
    #[schema(value_type = Vec<u32>)]
    tokens: Vec<TokenId>,
    /// How many there are.
    count: usize,
    /// Tokens that the model can look back on.
    max_model_len: usize,
}

/// The same text under the two names clients look for.
#[derive(Serialize, ToSchema)]
pub struct Detokenized {
    /// The text of the tokens.
    prompt: String,
    /// The same.
    text: String,
}

/// Text to token ids.
#[utoipa::path(
    post, path = "/tokenize", tag = "Tokenizer", operation_id = "tokenize",
    request_body = TokenizeBody,
    responses((status = 200, description = "the tokens", body = Tokenized), Refusals)
)]
pub async fn tokenize(
    State(state): State<Arc<AppState>>,
    mut fields: Fields,
) -> Result<Json<Tokenized>, ApiError> {
    let source = Source::take(&mut fields)?;
    let add_special = fields.take("add_special_tokens")?;
    let model =
        state.model(fields.take::<String>("model")?.filter(|n| !n.is_empty()).as_deref())?;
    fields.finish()?;
    let max_model_len = model.context_tokens();
    let tokens = off_thread(move || {
        // A rendered chat has its special tokens in the text already.
        let (text, special_by_default) = match source {
            Source::Text(text) => (text, true),
            Source::Chat(conversation, options) => (model.render(&conversation, &options)?, false),
        };
        let add = match add_special.unwrap_or(special_by_default) {
            true => AddSpecial::Yes,
            false => AddSpecial::No,
        };
        model.encode(&text, add)
    })
    .await?;
    Ok(Json(Tokenized { count: tokens.len(), tokens, max_model_len }))
}

/// Token ids to text.
#[utoipa::path(
    post, path = "/detokenize", tag = "Tokenizer", operation_id = "detokenize",
    request_body = DetokenizeBody,
    responses((status = 200, description = "the text", body = Detokenized), Refusals)
)]
pub async fn detokenize(
    State(state): State<Arc<AppState>>,
    mut fields: Fields,
) -> Result<Json<Detokenized>, ApiError> {
    let Some(tokens) = fields.take::<Vec<TokenId>>("tokens")? else {
        return Err(ApiError::invalid("tokens", "tokens is missing"));
    };
    let model =
        state.model(fields.take::<String>("model")?.filter(|n| !n.is_empty()).as_deref())?;
    fields.finish()?;
    let text = off_thread(move || model.decode(&tokens)).await?;
    Ok(Json(Detokenized { prompt: text.clone(), text }))
}

enum Source {
    Text(String),
    Chat(Conversation, RenderOptions),
}

impl Source {
    fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        match fields.take_alias(&["prompt", "text"])? {
            Some(text) => Ok(Self::Text(text)),
            None => Ok(Self::Chat(Conversation::take(fields)?, take_render_options(fields)?)),
        }
    }
}
