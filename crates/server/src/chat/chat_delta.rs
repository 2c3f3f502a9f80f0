//! A delta of a chat's output, as it is decoded.

use terrace_engine::text::TokenInfo;

use crate::chat::output_reader::OutputSegment;

/// Some of one choice.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatDelta {
    pub choice: usize,
    pub segments: Vec<OutputSegment>,
    /// The tokens it is made of; their text may come with a later delta.
    pub tokens: Vec<TokenInfo>,
    /// Set on the choice's last delta.
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
