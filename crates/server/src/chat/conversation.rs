//! The messages of a chat, checked, ready for a chat template.

use serde_json::{Map, Value};
use terrace_model::{Message, RenderOptions};

use crate::api_error::{ApiError, ApiResult};
use crate::fields::Fields;

/// At least one message; each has a `role`, and a `content` that is one text (or null beside tool
/// calls). Other fields stay as they came: templates may use them.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    messages: Vec<Message>,
}

impl Conversation {
    pub fn take(fields: &mut Fields) -> ApiResult<Self> {
        Self::new(fields.require("messages")?)
    }

    /// Messages in OpenAI's shape.
    pub fn new(messages: Vec<Map<String, Value>>) -> ApiResult<Self> {
        if messages.is_empty() {
            return Err(ApiError::invalid("messages", "messages is empty; give at least one"));
        }
        let messages = messages.into_iter().enumerate().map(checked).collect::<Result<_, _>>()?;
        Ok(Self { messages })
    }

    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    pub fn last_role(&self) -> &str {
        &self.last().role
    }

    pub fn last_content(&self) -> &str {
        self.last().content.as_str().unwrap_or_default()
    }

    /// The bytes of all its texts.
    pub fn bytes(&self) -> usize {
        let message = |message: &Message| {
            let extra = message.extra.iter().map(|(name, value)| name.len() + text_bytes(value));
            message.role.len() + text_bytes(&message.content) + extra.sum::<usize>()
        };
        self.messages.iter().map(message).sum()
    }

    fn last(&self) -> &Message {
        self.messages.last().expect("a conversation is never empty")
    }
}

fn text_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(text_bytes).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| name.len() + text_bytes(value)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// How the conversation is written out.
pub fn take_render_options(fields: &mut Fields) -> ApiResult<RenderOptions> {
    fields.refuse("chat_template", "it is the server's to choose (--chat-template)")?;
    let continues = fields.take_flag("continue_final_message")?.unwrap_or(false);
    let generation_prompt = fields.take_flag("add_generation_prompt")?;
    if continues && generation_prompt == Some(true) {
        let message = "continue_final_message and add_generation_prompt exclude each other";
        return Err(ApiError::invalid("continue_final_message", message));
    }
    let mut extra: Map<_, _> = fields.take("chat_template_kwargs")?.unwrap_or_default();
    if let Some(name) = extra.keys().find(|name| RESERVED.contains(&name.as_str())) {
        let path = format!("chat_template_kwargs.{name}");
        let message = format!("{path} is given to the template already and cannot be replaced");
        return Err(ApiError::invalid(&path, message));
    }
    if let Some(effort) = take_effort(fields, "reasoning_effort")? {
        extra.entry("reasoning_effort").or_insert(effort.into());
    }
    Ok(RenderOptions {
        add_generation_prompt: generation_prompt.unwrap_or(!continues),
        continue_final_message: continues,
        tools: None,
        extra,
    })
}

/// What every template is given; a request's own variables stand beside them.
const RESERVED: [&str; 6] =
    ["messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"];

/// How much to think, for templates that ask for it; others do not look at it.
pub fn take_effort(fields: &mut Fields, name: &str) -> ApiResult<Option<String>> {
    const KNOWN: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    let Some(effort) = fields.take::<String>(name)? else { return Ok(None) };
    match KNOWN.contains(&effort.as_str()) {
        true => Ok(Some(effort)),
        false => {
            let (path, known) = (fields.path_of(name), KNOWN.join(", "));
            let message = format!("{path} is {effort:?}: it must be one of {known}");
            Err(ApiError::invalid(&path, message))
        }
    }
}

fn checked((index, mut fields): (usize, Map<String, Value>)) -> ApiResult<Message> {
    let invalid = |rest: &str| ApiError::invalid("messages", format!("messages[{index}]{rest}"));
    let role = match fields.remove("role") {
        Some(Value::String(role)) if !role.is_empty() => role,
        _ => return Err(invalid(".role must be a string, such as \"user\"")),
    };
    let calls_tools = fields.get("tool_calls").is_some_and(|calls| !calls.is_null());
    let content = match fields.remove("content") {
        Some(text @ Value::String(_)) => text,
        Some(Value::Array(parts)) => {
            joined(&parts).map_err(|rest| invalid(&format!(".content{rest}")))?.into()
        }
        Some(Value::Null) | None if calls_tools => Value::Null,
        _ => return Err(invalid(".content must be a string or a list of text parts")),
    };
    Ok(Message { role, content, extra: fields })
}

/// The text of content parts, one after the other; on failure, which part and why.
fn joined(parts: &[Value]) -> Result<String, String> {
    let mut text = String::new();
    for (index, part) in parts.iter().enumerate() {
        match (part["type"].as_str(), part["text"].as_str()) {
            (Some("text"), Some(more)) => text.push_str(more),
            (Some("text"), None) => return Err(format!("[{index}].text must be a string")),
            (Some(kind), _) => {
                return Err(format!("[{index}] is of type {kind:?}; this model reads text only"));
            }
            (None, _) => return Err(format!("[{index}].type is missing")),
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(json: &str) -> ApiResult<Conversation> {
        Conversation::take(&mut Fields::parse(json.as_bytes())?)
    }

    #[track_caller]
    fn check_refused(json: &str, want: &str) {
        take(json).unwrap_err().check_is("messages", want);
    }

    #[test]
    fn parts_are_joined() {
        let chat = take(
            r#"{"messages": [{"role": "user", "name": "Ann", "content":
                [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]}]}"#,
        )
        .unwrap();
        assert_eq!((chat.last_role(), chat.last_content()), ("user", "one two"));
        assert_eq!(chat.messages()[0].extra["name"], "Ann");
    }

    #[test]
    fn a_tool_call_needs_no_content() {
        let chat = take(r#"{"messages": [{"role": "assistant", "tool_calls": [{}]}]}"#).unwrap();
        assert_eq!(chat.messages()[0].content, Value::Null);
    }

    fn render_options(json: &str) -> ApiResult<RenderOptions> {
        take_render_options(&mut Fields::parse(json.as_bytes())?)
    }

    #[test]
    fn template_variables_cannot_replace_what_the_template_is_given() {
        for name in RESERVED {
            let json = format!(r#"{{"chat_template_kwargs": {{"{name}": []}}}}"#);
            let error = render_options(&json).unwrap_err().to_json();
            assert!(error.contains(&format!("chat_template_kwargs.{name}")), "{error}");
        }
        let own = r#"{"chat_template_kwargs": {"enable_thinking": false}}"#;
        assert_eq!(render_options(own).unwrap().extra["enable_thinking"], false);
    }

    #[test]
    fn the_reasoning_effort_goes_to_the_template() {
        let low = render_options(r#"{"reasoning_effort": "low"}"#).unwrap();
        assert_eq!(low.extra["reasoning_effort"], "low");
        assert!(render_options(r#"{"reasoning_effort": "much"}"#).is_err());
    }

    #[test]
    fn a_message_is_continued_or_followed() {
        let continued = render_options(r#"{"continue_final_message": true}"#).unwrap();
        assert!(continued.continue_final_message && !continued.add_generation_prompt);
        let both = r#"{"continue_final_message": true, "add_generation_prompt": true}"#;
        assert!(render_options(both).is_err());
    }

    #[test]
    fn bad_messages_say_which_and_why() {
        check_refused("{}", "messages is missing");
        check_refused(r#"{"messages": []}"#, "messages is empty; give at least one");
        check_refused(
            r#"{"messages": [{"content": "a"}]}"#,
            "messages[0].role must be a string, such as \"user\"",
        );
        check_refused(
            r#"{"messages": [{"role": "user", "content": "a"}, {"role": "user"}]}"#,
            "messages[1].content must be a string or a list of text parts",
        );
        check_refused(
            r#"{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}"#,
            "messages[0].content[0] is of type \"image_url\"; this model reads text only",
        );
    }
}
