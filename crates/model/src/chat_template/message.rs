//! One message of a conversation.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::Error;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub role: String,
    /// A text, a list of parts (`{"type": "text", "text": ..}`), or nothing.
    #[serde(default)]
    pub content: Value,
    /// Everything else a template may look at (`name`, `tool_calls`).
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Message {
    pub fn text(role: &str, content: &str) -> Message {
        Message { role: role.into(), content: content.into(), extra: Map::new() }
    }

    /// The message with its text parts joined, as templates expect it.
    pub(super) fn with_flat_content(&self) -> Result<Message, Error> {
        let Value::Array(parts) = &self.content else { return Ok(self.clone()) };
        let text: String = parts.iter().map(part_text).collect::<Result<_, _>>()?;
        Ok(Message { content: text.into(), ..self.clone() })
    }
}

fn part_text(part: &Value) -> Result<&str, Error> {
    match (part["type"].as_str(), part["text"].as_str()) {
        (Some("text"), Some(text)) => Ok(text),
        (kind, _) => Err(Error::MessagePart { found: kind.unwrap_or("without a type").into() }),
    }
}
