//! An example as its file has it, before it is tokens.

use serde_json::{Map, Value};
use terrace_model::Message;

#[derive(Clone, Debug, PartialEq)]
pub enum CaseText {
    /// All of it is to be predicted.
    Text(String),
    Completion {
        prompt: String,
        completion: String,
    },
    Messages(Vec<Message>),
    Labelled {
        text: String,
        label: String,
    },
}

/// What a line may have.
const FORMS: &str = "\"text\"; \"text\" and \"label\"; \"prompt\" and \"completion\"; \
                     \"instruction\" (and \"input\") and \"output\"; or \"messages\"";

impl CaseText {
    /// By the names of its fields.
    pub fn of(fields: &Map<String, Value>) -> Result<Self, String> {
        let has = |name: &str| fields.contains_key(name);
        if has("messages") {
            return messages(&fields["messages"]);
        }
        if has("prompt") && has("completion") {
            let (prompt, completion) = (text(fields, "prompt")?, text(fields, "completion")?);
            return Ok(CaseText::Completion { prompt, completion });
        }
        if has("instruction") && has("output") {
            let mut prompt = text(fields, "instruction")?;
            if let Some(input) = fields.get("input").and_then(Value::as_str)
                && !input.is_empty()
            {
                prompt = format!("{prompt}\n\n{input}");
            }
            let completion = text(fields, "output")?;
            return Ok(CaseText::Completion { prompt: format!("{prompt}\n\n"), completion });
        }
        match (has("text"), fields.get("label")) {
            (true, None) => Ok(CaseText::Text(text(fields, "text")?)),
            (true, Some(label)) => {
                Ok(CaseText::Labelled { text: text(fields, "text")?, label: label_text(label)? })
            }
            (false, _) => {
                let names: Vec<&str> = fields.keys().map(String::as_str).collect();
                Err(format!("it has {}; a line has {FORMS}", names.join(", ")))
            }
        }
    }

    /// The class it belongs to.
    pub fn label(&self) -> Option<&str> {
        match self {
            CaseText::Labelled { label, .. } => Some(label),
            _ => None,
        }
    }
}

fn text(fields: &Map<String, Value>, name: &str) -> Result<String, String> {
    match &fields[name] {
        Value::String(text) => Ok(text.clone()),
        other => Err(format!("{name:?} is {}, not a text", kind(other))),
    }
}

fn label_text(label: &Value) -> Result<String, String> {
    match label {
        Value::String(label) => Ok(label.clone()),
        Value::Number(label) => Ok(label.to_string()),
        Value::Bool(label) => Ok(label.to_string()),
        other => Err(format!("\"label\" is {}, not a text or a number", kind(other))),
    }
}

fn messages(value: &Value) -> Result<CaseText, String> {
    let messages: Vec<Message> = serde_json::from_value(value.clone())
        .map_err(|error| format!("\"messages\" is no list of messages: {error}"))?;
    match messages.iter().any(|message| message.role == "assistant") {
        true => Ok(CaseText::Messages(messages)),
        false => {
            Err("none of the messages is the assistant's, so there is nothing to learn".into())
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(value: Value) -> Result<CaseText, String> {
        CaseText::of(value.as_object().expect("an object"))
    }

    #[test]
    fn forms_are_known_by_their_fields() {
        assert_eq!(of(json!({"text": "a", "id": 3})), Ok(CaseText::Text("a".into())));
        let labelled = |label: &str| CaseText::Labelled { text: "a".into(), label: label.into() };
        assert_eq!(of(json!({"text": "a", "label": 2})), Ok(labelled("2")));
        assert_eq!(of(json!({"text": "a", "label": "spam"})), Ok(labelled("spam")));
        let completion =
            |prompt: &str| CaseText::Completion { prompt: prompt.into(), completion: "c".into() };
        assert_eq!(of(json!({"prompt": "p", "completion": "c"})), Ok(completion("p")));
        let instruction = json!({"instruction": "i", "input": "x", "output": "c"});
        assert_eq!(of(instruction), Ok(completion("i\n\nx\n\n")));
        let chat = json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]);
        let messages = vec![Message::text("user", "q"), Message::text("assistant", "a")];
        assert_eq!(of(json!({ "messages": chat })), Ok(CaseText::Messages(messages)));
    }

    #[test]
    fn other_forms_are_refused_by_what_they_have() {
        for (value, want) in [
            (json!({"body": "a"}), "it has body"),
            (json!({"text": 3}), "\"text\" is a number"),
            (json!({"text": "a", "label": []}), "\"label\" is a list"),
            (json!({"messages": "a"}), "no list of messages"),
            (json!({"messages": [{"role": "user", "content": "q"}]}), "nothing to learn"),
            (json!({"prompt": "p"}), "it has prompt"),
        ] {
            let error = of(value).expect_err("it is refused");
            assert!(error.contains(want), "{error}");
        }
    }
}
