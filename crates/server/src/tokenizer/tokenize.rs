//! `POST /tokenize` and `POST /detokenize`: the model's tokenizer, as other servers offer it.

use std::sync::Arc;

use terrace_engine::TokenId;
use terrace_model::{AddSpecial, RenderOptions};

use crate::api_error::{ApiResult, Reply};
use crate::bounded_work::off_thread;
use crate::chat::{Conversation, take_render_options};
use crate::docs::{DetokenizeBody, Refusals, TokenizeBody};
use crate::fields::{Fields, JsonRequest};
use crate::language::take_model;
use crate::tokenizer::token_reply::{Detokenized, Tokenized, token_list, token_text};

/// Text to token ids.
#[utoipa::path(post, path = "/tokenize", tag = "Tokenizer", operation_id = "tokenize",
    request_body = TokenizeBody,
    responses((status = 200, description = "the tokens", body = Tokenized), Refusals))]
pub async fn tokenize(JsonRequest { state, mut fields, .. }: JsonRequest) -> Reply {
    let source = Source::take(&mut fields)?;
    let add_special = fields.take("add_special_tokens")?;
    let model = state.services.language.model(take_model(&mut fields)?.as_deref())?;
    fields.finish()?;
    let max_model_len = model.context_tokens();
    let held = state.memory.for_reply(source.bytes()).await?;
    let (tokens, held) = off_thread(move || {
        // A rendered chat has its special tokens in the text already.
        let (text, special_by_default) = match source {
            Source::Text(text) => (text, true),
            Source::Chat(conversation, options) => (model.render(&conversation, &options)?, false),
        };
        let add = match add_special.unwrap_or(special_by_default) {
            true => AddSpecial::Yes,
            false => AddSpecial::No,
        };
        Ok((model.encode(&text, add)?, held))
    })
    .await?;
    Ok(token_list(tokens, max_model_len, held))
}

/// Token ids to text.
#[utoipa::path(post, path = "/detokenize", tag = "Tokenizer", operation_id = "detokenize",
    request_body = DetokenizeBody,
    responses((status = 200, description = "the text", body = Detokenized), Refusals))]
pub async fn detokenize(JsonRequest { state, mut fields, .. }: JsonRequest) -> Reply {
    let tokens: Vec<TokenId> = fields.require("tokens")?;
    let model = state.services.language.model(take_model(&mut fields)?.as_deref())?;
    fields.finish()?;
    let held = state.memory.for_reply(tokens.len()).await?;
    let tokens: Arc<[TokenId]> = tokens.into();
    let segments = || model.segments_of(Arc::clone(&tokens));
    Ok(token_text([segments()?, segments()?], held))
}

enum Source {
    Text(String),
    Chat(Conversation, RenderOptions),
}

impl Source {
    fn take(fields: &mut Fields) -> ApiResult<Self> {
        match fields.take_alias(&["prompt", "text"])? {
            Some(text) => Ok(Self::Text(text)),
            None => Ok(Self::Chat(Conversation::take(fields)?, take_render_options(fields)?)),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Chat(conversation, _) => conversation.bytes(),
        }
    }
}
