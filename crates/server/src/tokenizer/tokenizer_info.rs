//! `GET /tokenizer_info`: what the model's tokenizer is, in vLLM's shape.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use serde::Serialize;
use terrace_engine::TokenId;
use utoipa::ToSchema;

use crate::api_error::{ApiError, JsonReply};
use crate::app_state::AppState;
use crate::bounded_work::off_thread;
use crate::docs::{UnknownModel, UnknownParameter};
use crate::language::ServedModel;

#[derive(Serialize, ToSchema)]
pub struct TokenizerInfo {
    /// How it splits text: `BPE`, `Unigram`, `WordPiece` or `WordLevel`.
    tokenizer_class: &'static str,
    /// One more than the largest id.
    vocab_size: usize,
    /// Tokens of prompt and output together.
    model_max_length: usize,
    /// What begins a text; null where nothing does.
    bos_token: Option<String>,
    /// What ends an output; the first, where there are several.
    eos_token: Option<String>,
    /// The ids of all tokens that end an output.
    eos_token_ids: Vec<TokenId>,
    /// The special tokens by their ids.
    added_tokens_decoder: BTreeMap<TokenId, AddedToken>,
    /// The template that conversations are written out with, in Jinja.
    chat_template: Option<String>,
}

/// A token that is not part of any text.
#[derive(Serialize, ToSchema)]
struct AddedToken {
    /// How it is written.
    content: String,
    /// Always true: ordinary tokens are not listed.
    special: bool,
}

/// What the model's tokenizer is.
#[utoipa::path(get, path = "/tokenizer_info", tag = "Tokenizer", operation_id = "tokenizerInfo",
    params(("model" = Option<String>, Query, description = "whose, where several are served")),
    responses((status = 200, description = "the tokenizer", body = TokenizerInfo),
        UnknownParameter, UnknownModel))]
pub async fn show(
    State(state): State<Arc<AppState>>,
    RawQuery(query): RawQuery,
) -> JsonReply<TokenizerInfo> {
    let mut name = None;
    for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        match key.as_ref() {
            "model" => name = Some(value.into_owned()),
            other => {
                let message = format!("{other:?} is not known here; model=NAME is");
                return Err(ApiError::invalid(other, message));
            }
        }
    }
    let model = state.services.language.model(name.as_deref().filter(|name| !name.is_empty()))?;
    off_thread(move || Ok(Json(TokenizerInfo::of(&model)))).await
}

impl TokenizerInfo {
    fn of(model: &ServedModel) -> Self {
        let text = |id: TokenId| model.token_text(id).text;
        let eos_token_ids = model.eos_tokens().to_vec();
        let special = model.special_tokens().into_iter();
        let added = special.map(|id| (id, AddedToken { content: text(id), special: true }));
        Self {
            tokenizer_class: model.tokenizer_kind(),
            vocab_size: model.vocab_size(),
            model_max_length: model.context_tokens(),
            bos_token: model.bos_token().map(text),
            eos_token: eos_token_ids.first().copied().map(text),
            eos_token_ids,
            added_tokens_decoder: added.collect(),
            chat_template: model.template_source().map(str::to_owned),
        }
    }
}
