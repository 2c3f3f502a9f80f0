//! The turns of a conversation in OpenAI's shape, which chat templates are written for.
//!
//! Messages of one role that follow each other are one turn, as Anthropic documents it. A result
//! of a call, which stands in a user's message, is a turn of its own. Thinking is handed to the
//! template as `reasoning_content`: a template shows the part that its model wants to see again
//! and drops the rest. Redacted thinking, which only Anthropic can read, is dropped.

use serde_json::{Map, Value, json};

use super::block::{Block, take_blocks, take_text};
use super::unknown_value;
use crate::api_error::{ApiError, ApiResult};
use crate::chat::Conversation;
use crate::fields::Fields;

/// Before the ids of calls; the rest is what chat templates get, as some take no longer one.
pub const CALL_ID_PREFIX: &str = "toolu_";

/// As on the other routes.
const MAX_MESSAGES: usize = 8_192;

#[derive(Debug, Default)]
pub struct Turns(Vec<Turn>);

#[derive(Debug)]
enum Turn {
    System(String),
    User(String),
    Assistant(AssistantTurn),
    ToolResult { call_id: String, text: String },
}

#[derive(Debug, Default)]
struct AssistantTurn {
    text: String,
    reasoning: String,
    calls: Vec<Value>,
}

impl Turns {
    /// `system` and `messages`.
    pub fn take(fields: &mut Fields) -> ApiResult<Self> {
        let mut turns = Self::default();
        if let Some(system) = take_text(fields, "system")? {
            turns.push(Turn::System(system));
        }
        let messages = fields.take_objects("messages", MAX_MESSAGES)?;
        let messages = messages.ok_or_else(|| ApiError::missing("messages"))?;
        if messages.is_empty() {
            return Err(ApiError::invalid("messages", "messages is empty; give at least one"));
        }
        for message in messages {
            turns.take_message(message)?;
        }
        Ok(turns)
    }

    /// Whether the output goes on with the last message: it is the assistant's own.
    pub fn is_prefilled(&self) -> ApiResult<bool> {
        match self.0.last() {
            Some(Turn::Assistant(turn)) if !turn.calls.is_empty() => {
                let message = "messages ends with tool_use blocks; their tool_result blocks must \
                               follow in a user message";
                Err(ApiError::invalid("messages", message))
            }
            Some(Turn::Assistant(turn)) if turn.text.trim().is_empty() => {
                let message = "messages ends with an assistant message without text, which \
                               cannot be continued; leave it out";
                Err(ApiError::invalid("messages", message))
            }
            last => Ok(matches!(last, Some(Turn::Assistant(_)))),
        }
    }

    pub fn into_conversation(self) -> ApiResult<Conversation> {
        Conversation::new(self.0.into_iter().map(Turn::into_message).collect())
    }

    fn take_message(&mut self, mut message: Fields) -> ApiResult<()> {
        let role: String = message.require("role")?;
        match role.as_str() {
            "user" => self.take_user(&mut message)?,
            "assistant" => {
                let turn = take_assistant(&mut message)?;
                self.push(Turn::Assistant(turn));
            }
            "system" => {
                let text = take_text(&mut message, "content")?;
                let text = text.ok_or_else(|| ApiError::missing(&message.path_of("content")))?;
                self.push(Turn::System(text));
            }
            other => {
                let known = "\"user\", \"assistant\" or \"system\"";
                return Err(unknown_value(&message.path_of("role"), other, known));
            }
        }
        message.finish()
    }

    fn take_user(&mut self, message: &mut Fields) -> ApiResult<()> {
        let mut text: Option<String> = None;
        for (index, block) in take_blocks(message)?.into_iter().enumerate() {
            match block {
                Block::Text(more) => text.get_or_insert_default().push_str(&more),
                Block::ToolResult { tool_use_id, text: result } => {
                    if let Some(text) = text.take() {
                        self.push(Turn::User(text));
                    }
                    let call_id = template_id(&tool_use_id);
                    self.push(Turn::ToolResult { call_id, text: result });
                }
                _ => return Err(misplaced(message, index, "an assistant's")),
            }
        }
        if let Some(text) = text {
            self.push(Turn::User(text));
        }
        Ok(())
    }

    /// Adds the turn, to the one before where both are of the same speaker.
    fn push(&mut self, turn: Turn) {
        match (self.0.last_mut(), turn) {
            (Some(Turn::System(text)), Turn::System(more))
            | (Some(Turn::User(text)), Turn::User(more)) => join(text, &more),
            (Some(Turn::Assistant(turn)), Turn::Assistant(more)) => {
                join(&mut turn.text, &more.text);
                join(&mut turn.reasoning, &more.reasoning);
                turn.calls.extend(more.calls);
            }
            (_, turn) => self.0.push(turn),
        }
    }
}

impl Turn {
    fn into_message(self) -> Map<String, Value> {
        let mut message = Map::new();
        let role = match self {
            Self::System(text) => {
                message.insert("content".into(), text.into());
                "system"
            }
            Self::User(text) => {
                message.insert("content".into(), text.into());
                "user"
            }
            Self::ToolResult { call_id, text } => {
                message.insert("tool_call_id".into(), call_id.into());
                message.insert("content".into(), text.into());
                "tool"
            }
            Self::Assistant(AssistantTurn { text, reasoning, calls }) => {
                message.insert("content".into(), text.into());
                if !reasoning.is_empty() {
                    message.insert("reasoning_content".into(), reasoning.into());
                }
                if !calls.is_empty() {
                    message.insert("tool_calls".into(), calls.into());
                }
                "assistant"
            }
        };
        message.insert("role".into(), role.into());
        message
    }
}

fn take_assistant(message: &mut Fields) -> ApiResult<AssistantTurn> {
    let mut turn = AssistantTurn::default();
    for (index, block) in take_blocks(message)?.into_iter().enumerate() {
        match block {
            Block::Text(text) => turn.text.push_str(&text),
            Block::Thinking(text) => turn.reasoning.push_str(&text),
            Block::RedactedThinking => {}
            Block::ToolUse { id, name, input } => turn.calls.push(json!({
                "id": template_id(&id), "type": "function",
                "function": {"name": name, "arguments": input},
            })),
            Block::ToolResult { .. } => return Err(misplaced(message, index, "a user's")),
        }
    }
    Ok(turn)
}

fn misplaced(message: &Fields, block: usize, whose: &str) -> ApiError {
    let path = message.path_of(&format!("content[{block}]"));
    ApiError::invalid(&path, format!("{path} is of a type that stands in {whose} message only"))
}

fn template_id(id: &str) -> String {
    id.strip_prefix(CALL_ID_PREFIX).unwrap_or(id).to_owned()
}

fn join(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::taken;

    fn take(body: &Value) -> ApiResult<Turns> {
        taken(body, Turns::take)
    }

    #[track_caller]
    fn check(body: Value, want: Value) {
        let conversation = take(&body).unwrap().into_conversation().unwrap();
        assert_eq!(serde_json::to_value(conversation.messages()).unwrap(), want);
    }

    #[track_caller]
    fn check_refused(body: Value, want: &str) {
        let error = take(&body).and_then(|turns| turns.is_prefilled()).unwrap_err();
        assert_eq!(error.message(), want);
    }

    #[test]
    fn calls_and_results_become_turns_of_their_own() {
        let call = json!({"type": "tool_use", "id": "toolu_abc", "name": "f", "input": {"x": 1}});
        check(
            json!({
                "system": [{"type": "text", "text": "Be "}, {"type": "text", "text": "kind."}],
                "messages": [
                    {"role": "user", "content": "Call f."},
                    {"role": "assistant", "content": [
                        {"type": "thinking", "thinking": "f it is.", "signature": ""},
                        {"type": "redacted_thinking", "data": "x"},
                        {"type": "text", "text": "Look:"}, call]},
                    {"role": "user", "content": [
                        {"type": "tool_result", "tool_use_id": "toolu_abc", "content": "42"},
                        {"type": "text", "text": "And?"}]},
                ],
            }),
            json!([
                {"role": "system", "content": "Be kind."},
                {"role": "user", "content": "Call f."},
                {"role": "assistant", "content": "Look:", "reasoning_content": "f it is.",
                 "tool_calls": [{"id": "abc", "type": "function",
                    "function": {"name": "f", "arguments": {"x": 1}}}]},
                {"role": "tool", "content": "42", "tool_call_id": "abc"},
                {"role": "user", "content": "And?"},
            ]),
        );
    }

    #[test]
    fn messages_of_one_role_are_one_turn() {
        check(
            json!({"system": "One.", "messages": [
                {"role": "system", "content": "Two."},
                {"role": "user", "content": "a"}, {"role": "user", "content": "b"},
                {"role": "assistant", "content": "c"}, {"role": "assistant", "content": "d"},
            ]}),
            json!([
                {"role": "system", "content": "One.\n\nTwo."},
                {"role": "user", "content": "a\n\nb"},
                {"role": "assistant", "content": "c\n\nd"},
            ]),
        );
    }

    #[test]
    fn a_last_message_of_the_assistants_is_a_prefill() {
        let user = json!({"role": "user", "content": "a"});
        let said = json!({"role": "assistant", "content": "b"});
        let is_prefilled =
            |messages: Value| take(&json!({"messages": messages})).unwrap().is_prefilled().unwrap();
        assert!(is_prefilled(json!([user, said])));
        assert!(!is_prefilled(json!([user, said, user])));
        let call = json!({"type": "tool_use", "id": "t", "name": "f", "input": {}});
        check_refused(
            json!({"messages": [user, {"role": "assistant", "content": [call]}]}),
            "messages ends with tool_use blocks; their tool_result blocks must follow in a user \
             message",
        );
        check_refused(
            json!({"messages": [user, {"role": "assistant", "content": " "}]}),
            "messages ends with an assistant message without text, which cannot be continued; \
             leave it out",
        );
    }

    #[test]
    fn bad_messages_say_which_and_why() {
        check_refused(json!({}), "messages is missing");
        check_refused(json!({"messages": []}), "messages is empty; give at least one");
        check_refused(json!({"messages": [{"content": "a"}]}), "messages[0].role is missing");
        check_refused(json!({"messages": [{"role": "user"}]}), "messages[0].content is missing");
        check_refused(
            json!({"messages": [{"role": "tool", "content": "a"}]}),
            "messages[0].role is \"tool\": it must be \"user\", \"assistant\" or \"system\"",
        );
        check_refused(
            json!({"messages": [{"role": "user", "content": "a", "name": "Ann"}]}),
            "unknown field \"messages[0].name\"",
        );
        check_refused(
            json!({"messages": [{"role": "user", "content": [
                {"type": "thinking", "thinking": "Hm."}]}]}),
            "messages[0].content[0] is of a type that stands in an assistant's message only",
        );
        check_refused(
            json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": [
                {"type": "tool_result", "tool_use_id": "t"}]}]}),
            "messages[1].content[0] is of a type that stands in a user's message only",
        );
    }
}
