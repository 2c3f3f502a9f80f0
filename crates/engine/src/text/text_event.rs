//! A piece of an output, ready to be shown.

use crate::generate::token_event::{Failure, TokenLogprobs};
use terrace_cache::TokenId;

#[derive(Clone, Debug, PartialEq)]
pub struct TextEvent {
    /// Which of the request's outputs this belongs to.
    pub choice: usize,
    /// New text; empty while a character or a possible stop string is incomplete.
    pub text: String,
    /// The tokens that `text` is made of.
    pub tokens: Vec<TokenInfo>,
    /// Set on the choice's last event.
    pub finish: Option<TextFinish>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TokenInfo {
    pub id: TokenId,
    pub logprobs: Option<TokenLogprobs>,
}

/// Why a choice ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextFinish {
    /// A stop token, which is not part of the text.
    StopToken(TokenId),
    /// A stop string, which is part of the text only if the request asks for it.
    StopText(String),
    Length,
    Cancelled,
    Failed(Failure),
}
