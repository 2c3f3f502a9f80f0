//! Messages with calls and their results, made ready for a chat template.
//!
//! OpenAI writes a call's arguments as a text; templates want the object. A template that knows no
//! tools gets ordinary messages, which describe the functions and show calls and results as text.

use serde_json::{Map, Value};
use terrace_model::Message;

use super::tool_format::ToolFormat;
use crate::api_error::{ApiError, ApiResult};

/// For templates that know tools.
pub fn with_objects(messages: &[Message]) -> ApiResult<Vec<Message>> {
    let prepared = messages.iter().enumerate().map(|(index, message)| {
        let mut message = message.clone();
        for (call, value) in calls_mut(&mut message).iter_mut().enumerate() {
            let (_, arguments) = call_of(value).map_err(|problem| bad(index, call, problem))?;
            value["function"]["arguments"] = arguments;
        }
        Ok(message)
    });
    prepared.collect()
}

/// For templates that know none.
pub fn as_text(
    messages: &[Message],
    tools: Option<&Value>,
    format: ToolFormat,
) -> ApiResult<Vec<Message>> {
    let plain = messages.iter().enumerate();
    let plain = plain.map(|(index, message)| message_as_text(index, message, format));
    let mut plain: Vec<_> = plain.collect::<Result<_, _>>()?;
    if let Some(tools) = tools.and_then(Value::as_array) {
        let offer = offer_text(tools, format);
        match plain.first_mut().filter(|first| first.role == "system") {
            Some(system) => {
                let text = system.content.as_str().unwrap_or_default();
                system.content = format!("{text}\n\n{offer}").into();
            }
            None => plain.insert(0, Message::text("system", &offer)),
        }
    }
    Ok(plain)
}

fn message_as_text(index: usize, message: &Message, format: ToolFormat) -> ApiResult<Message> {
    let text = message.content.as_str().unwrap_or_default();
    if message.role == "tool" {
        let text = format!("<tool_response>\n{text}\n</tool_response>");
        return Ok(Message::text("user", &text));
    }
    let calls = message.extra.get("tool_calls").and_then(Value::as_array);
    let Some(calls) = calls.filter(|calls| !calls.is_empty()) else { return Ok(message.clone()) };
    let mut lines = Vec::with_capacity(calls.len() + 1);
    lines.extend((!text.is_empty()).then(|| text.to_owned()));
    for (call, value) in calls.iter().enumerate() {
        let (name, arguments) = call_of(value).map_err(|problem| bad(index, call, problem))?;
        lines.push(format.written_call(&name, &arguments));
    }
    Ok(Message::text(&message.role, &lines.join("\n")))
}

/// How the functions are described to the model.
fn offer_text(tools: &[Value], format: ToolFormat) -> String {
    let functions: Vec<_> = tools.iter().map(|tool| tool["function"].to_string()).collect();
    let mut example = Map::new();
    example.insert("parameter".into(), "value".into());
    format!(
        "You can call these functions, each described by a JSON object:\n<tools>\n{}\n</tools>\n\
         To call a function, write its name and its arguments like this, and nothing else:\n{}\n\
         The function's result comes in the next message. If no function helps, answer yourself.",
        functions.join("\n"),
        format.written_call("function_name", &Value::Object(example)),
    )
}

fn calls_mut(message: &mut Message) -> &mut [Value] {
    match message.extra.get_mut("tool_calls") {
        Some(Value::Array(calls)) => calls,
        _ => &mut [],
    }
}

/// A call's name, and its arguments as an object; or the field that is wrong.
fn call_of(call: &Value) -> Result<(String, Value), &'static str> {
    let function = &call["function"];
    let name = function["name"].as_str().ok_or("name must be a string")?;
    let arguments = match &function["arguments"] {
        Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
        other => other.clone(),
    };
    match arguments.is_object() {
        true => Ok((name.to_owned(), arguments)),
        false => Err("arguments must be the text of a JSON object"),
    }
}

fn bad(message: usize, call: usize, problem: &str) -> ApiError {
    let message = format!("messages[{message}].tool_calls[{call}].function.{problem}");
    ApiError::invalid("messages", message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages() -> Vec<Message> {
        let calls = json!([{"id": "c1", "type": "function",
            "function": {"name": "f", "arguments": "{\"a\": 1}"}}]);
        let called = json!({"role": "assistant", "content": null, "tool_calls": calls});
        let result = json!({"role": "tool", "tool_call_id": "c1", "content": "42"});
        let asked = json!({"role": "user", "content": "What is f of 1?"});
        [asked, called, result].map(|message| serde_json::from_value(message).unwrap()).to_vec()
    }

    #[test]
    fn templates_get_objects() {
        let prepared = with_objects(&messages()).unwrap();
        let call = &prepared[1].extra["tool_calls"][0];
        assert_eq!(call["function"]["arguments"], json!({"a": 1}));
        assert_eq!(
            (prepared[0].clone(), prepared[2].role.as_str()),
            (messages()[0].clone(), "tool")
        );
    }

    #[test]
    fn other_templates_get_text() {
        let tools = json!([{"type": "function", "function": {"name": "f"}}]);
        let plain = as_text(&messages(), Some(&tools), ToolFormat::Hermes).unwrap();
        let roles: Vec<_> = plain.iter().map(|message| message.role.as_str()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "user"]);
        assert!(plain[0].content.as_str().unwrap().contains(r#"{"name":"f"}"#));
        let call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1}}\n</tool_call>";
        assert_eq!(plain[2], Message::text("assistant", call));
        assert_eq!(plain[3], Message::text("user", "<tool_response>\n42\n</tool_response>"));
    }

    #[test]
    fn the_functions_go_into_the_system_message() {
        let talk = [Message::text("system", "Be kind."), Message::text("user", "Hi")];
        let tools = json!([{"type": "function", "function": {"name": "f"}}]);
        let plain = as_text(&talk, Some(&tools), ToolFormat::Hermes).unwrap();
        assert_eq!(plain.len(), 2);
        assert!(plain[0].content.as_str().unwrap().starts_with("Be kind.\n\nYou can call"));
        assert_eq!(as_text(&talk, None, ToolFormat::Hermes).unwrap(), talk);
    }

    #[test]
    fn bad_calls_say_where() {
        let mut bad = messages();
        bad[1].extra["tool_calls"][0]["function"]["arguments"] = json!("{");
        let error = with_objects(&bad).unwrap_err().to_json();
        let want = "messages[1].tool_calls[0].function.arguments must be the text of a JSON object";
        assert!(error.contains(want), "{error}");
    }
}
