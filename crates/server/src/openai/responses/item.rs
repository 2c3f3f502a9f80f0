//! Items: what a response goes on from, and what it adds.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::openai::logprobs::ChatLogprob;

/// A message, a call of a function, its result, or what a thinking model thought.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    Message(MessageItem),
    FunctionCall(CallItem),
    FunctionCallOutput(CallOutputItem),
    Reasoning(ReasoningItem),
}

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct MessageItem {
    /// Names this item.
    pub id: String,
    /// `completed`, unless the output was cut inside of it or is still being decoded.
    pub status: ItemStatus,
    /// Who speaks.
    pub role: Role,
    /// Its text, in parts.
    pub content: Vec<ContentPart>,
}

/// A function that the client shall call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CallItem {
    /// Names this item.
    pub id: String,
    /// Names this call, for the item that brings its result.
    pub call_id: String,
    /// As the request named it.
    pub name: String,
    /// The text of a JSON object; a beginning of it where the output was cut.
    pub arguments: String,
    /// `completed`, unless the output was cut inside of it or is still being decoded.
    pub status: ItemStatus,
}

/// What a called function returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CallOutputItem {
    /// Names this item.
    pub id: String,
    /// Which call it is the result of.
    pub call_id: String,
    /// The result.
    pub output: String,
    /// `completed`
    pub status: ItemStatus,
}

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ReasoningItem {
    /// Names this item.
    pub id: String,
    /// Always empty: nothing is summarised.
    pub summary: Vec<Value>,
    /// What the model wrote before its output.
    pub content: Vec<ContentPart>,
    /// `completed`, unless the output was cut inside of it or is still being decoded.
    pub status: ItemStatus,
}

/// A part of a message or of reasoning.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type")]
pub enum ContentPart {
    /// What the client says.
    #[serde(rename = "input_text")]
    Input {
        /// Some of the message.
        text: String,
    },
    /// What the model says.
    #[serde(rename = "output_text")]
    Output {
        /// Some of the message.
        text: String,
        /// Always empty: nothing is cited.
        annotations: Vec<Value>,
        /// One for each token of the text, if requested.
        logprobs: Vec<ChatLogprob>,
    },
    /// What the model thinks.
    #[serde(rename = "reasoning_text")]
    Reasoning {
        /// The reasoning.
        text: String,
    },
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    Assistant,
    System,
    Developer,
}

/// How far an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    InProgress,
    Completed,
    Incomplete,
}

/// What an item takes in memory besides its texts.
const ITEM_BYTES: usize = 256;

impl Item {
    /// The user's message of one text.
    pub fn user(id: String, text: String) -> Self {
        let content = vec![ContentPart::Input { text }];
        Self::Message(MessageItem { id, status: ItemStatus::Completed, role: Role::User, content })
    }

    pub fn id(&self) -> &str {
        match self {
            Self::Message(item) => &item.id,
            Self::FunctionCall(item) => &item.id,
            Self::FunctionCallOutput(item) => &item.id,
            Self::Reasoning(item) => &item.id,
        }
    }

    /// What the item takes in memory, roughly; log-probabilities aside.
    pub fn bytes(&self) -> usize {
        let parts = match self {
            Self::Message(MessageItem { content, .. })
            | Self::Reasoning(ReasoningItem { content, .. }) => content.len(),
            Self::FunctionCall(_) | Self::FunctionCallOutput(_) => 0,
        };
        ITEM_BYTES + self.id().len() + parts * size_of::<ContentPart>() + self.text_bytes()
    }

    /// The bytes of what it says.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Message(MessageItem { content, .. })
            | Self::Reasoning(ReasoningItem { content, .. }) => {
                content.iter().map(|part| part.text().len()).sum()
            }
            Self::FunctionCall(CallItem { call_id, name, arguments, .. }) => {
                call_id.len() + name.len() + arguments.len()
            }
            Self::FunctionCallOutput(CallOutputItem { call_id, output, .. }) => {
                call_id.len() + output.len()
            }
        }
    }

    /// The item as a later response goes on from it.
    pub fn without_logprobs(mut self) -> Self {
        if let Self::Message(MessageItem { content, .. }) = &mut self {
            for part in content {
                if let ContentPart::Output { logprobs, .. } = part {
                    *logprobs = Vec::new();
                }
            }
        }
        self
    }
}

impl ContentPart {
    /// What the model says, without log-probabilities.
    pub fn output(text: String) -> Self {
        Self::Output { text, annotations: Vec::new(), logprobs: Vec::new() }
    }

    pub fn text(&self) -> &str {
        match self {
            Self::Input { text } | Self::Output { text, .. } | Self::Reasoning { text } => text,
        }
    }
}

/// The parts' text, one after the other.
pub fn joined(parts: &[ContentPart]) -> String {
    parts.iter().map(ContentPart::text).collect()
}
