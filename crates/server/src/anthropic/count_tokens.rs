//! `POST /v1/messages/count_tokens`

use axum::Json;
use serde::Serialize;
use terrace_model::AddSpecial;
use utoipa::ToSchema;

use super::errors::ErrorShape;
use super::messages_prompt::MessagesPrompt;
use crate::api_error::JsonReply;
use crate::bounded_work::off_thread;
use crate::docs::{AnthropicRefusals, CountTokensBody};
use crate::fields::JsonRequest;
use crate::language::take_model;
use crate::tools::ToolOffer;

#[derive(Serialize, ToSchema)]
#[schema(as = anthropic::TokenCount)]
pub struct TokenCount {
    /// Tokens of the prompt as the model's chat template writes it, tools and system included.
    input_tokens: usize,
}

/// Counts the tokens of a conversation.
#[utoipa::path(post, path = "/v1/messages/count_tokens", tag = "Anthropic",
    operation_id = "countTokens", request_body = CountTokensBody,
    responses((status = 200, description = "how many", body = TokenCount), AnthropicRefusals, (
        status = 400, description = "the request is wrong; `message` says where",
        body = ErrorShape<'_>)))]
pub async fn count(JsonRequest { state, mut fields, .. }: JsonRequest) -> JsonReply<TokenCount> {
    let MessagesPrompt { conversation, mut render, offer, .. } = MessagesPrompt::take(&mut fields)?;
    let model = take_model(&mut fields)?;
    fields.finish()?;
    let model = state.services.language.model(model.as_deref())?;
    render.tools = offer.as_ref().map(ToolOffer::described);
    let held = state.memory.for_prompt(conversation.bytes()).await?;
    let input_tokens = off_thread(move || {
        let _held = held;
        let prompt = model.render(&conversation, &render)?;
        // A rendered chat has its special tokens in the text already.
        Ok(model.encode(&prompt, AddSpecial::No)?.len())
    })
    .await?;
    Ok(Json(TokenCount { input_tokens }))
}
