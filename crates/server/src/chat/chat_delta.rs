//! A piece of a chat's output, as it is decoded.

use terrace_engine::text::TokenInfo;

use crate::chat::output_reader::OutputPart;

/// Some of one choice.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatPiece {
    pub choice: usize,
    pub parts: Vec<OutputPart>,
    /// The tokens it is made of; their text may come with a later piece.
    pub tokens: Vec<TokenInfo>,
    /// Set on the choice's last piece.
    pub finish: Option<ChatFinish>,
}

/// Why a choice has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatFinish {
    /// The model came to its end, or to a stop token of the request's.
    Stop,
    /// One of the request's stop texts came.
    StopText(String),
    Length,
    ToolCalls,
}
