//! How tools are brought to one model.

use serde_json::Value;
use terrace_model::Message;

use super::tool_format::ToolFormat;
use super::tool_messages;
use crate::api_error::ApiResult;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolPrompt {
    pub format: ToolFormat,
    /// Whether the chat template writes tools and calls itself; otherwise they are put into
    /// ordinary messages.
    is_in_template: bool,
}

impl ToolPrompt {
    /// `template`: the chat template, if there is one.
    pub fn of_template(template: Option<&str>) -> Self {
        let known = template.and_then(ToolFormat::of_template);
        let format = known.unwrap_or(ToolFormat::Hermes);
        ToolPrompt { format, is_in_template: known.is_some() }
    }

    /// The messages and the tools as the template wants them.
    pub fn prepare(
        self,
        messages: &[Message],
        tools: Option<&Value>,
    ) -> ApiResult<(Vec<Message>, Option<Value>)> {
        if self.is_in_template {
            return Ok((tool_messages::with_objects(messages)?, tools.cloned()));
        }
        Ok((tool_messages::as_text(messages, tools, self.format)?, None))
    }
}
