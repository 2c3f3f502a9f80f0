//! The events of a streamed message.

use serde::Serialize;
use utoipa::ToSchema;

use super::message_shape::{ContentBlock, Message, Stop, Usage};
use crate::language::sse::Frame;

/// One event. They come in this order: `message_start`, `ping`; for each block
/// `content_block_start`, any number of `content_block_delta`, `content_block_stop`; then
/// `message_delta`, `message_stop`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schema(as = anthropic::Event)]
pub enum Event {
    MessageStart {
        /// The message without its content.
        message: Box<Message>,
    },
    Ping,
    ContentBlockStart {
        /// Which block.
        index: usize,
        /// The block without its text or input.
        content_block: ContentBlock,
    },
    ContentBlockDelta {
        /// Which block.
        index: usize,
        delta: Delta,
    },
    ContentBlockStop {
        /// Which block.
        index: usize,
    },
    MessageDelta {
        delta: Stop,
        /// Of the whole message.
        usage: Usage,
    },
    MessageStop,
}

/// What is new in a block.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "type")]
#[schema(as = anthropic::Delta)]
pub enum Delta {
    #[serde(rename = "text_delta")]
    Text {
        /// More text.
        text: String,
    },
    #[serde(rename = "thinking_delta")]
    Thinking {
        /// More thinking.
        thinking: String,
    },
    #[serde(rename = "signature_delta")]
    Signature {
        /// Always empty, as in the block; ends the thinking.
        signature: &'static str,
    },
    #[serde(rename = "input_json_delta")]
    InputJson {
        /// More of the text of a JSON object.
        partial_json: String,
    },
}

impl Delta {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text { text } | Self::Thinking { thinking: text } => text.is_empty(),
            Self::InputJson { partial_json } => partial_json.is_empty(),
            Self::Signature { .. } => false,
        }
    }
}

impl Event {
    /// The event with its name.
    pub fn frame(&self) -> Frame {
        Frame::named(self.name(), self)
    }

    fn name(&self) -> &'static str {
        match self {
            Self::MessageStart { .. } => "message_start",
            Self::Ping => "ping",
            Self::ContentBlockStart { .. } => "content_block_start",
            Self::ContentBlockDelta { .. } => "content_block_delta",
            Self::ContentBlockStop { .. } => "content_block_stop",
            Self::MessageDelta { .. } => "message_delta",
            Self::MessageStop => "message_stop",
        }
    }
}
