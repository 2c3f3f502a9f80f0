//! Items as the messages of a chat, in the shape that chat templates know.
//!
//! - `instructions` and the system and developer messages at the beginning are one system message:
//!   many templates take no other.
//! - Calls join the assistant's message before them; a call that was cut is left out.
//! - Reasoning goes to the assistant's message or call after it, as `reasoning_content`; whether
//!   the model sees it again is the template's to decide.

use serde_json::{Map, Value, json};

use crate::openai::responses::item::{CallItem, Item, ItemStatus, MessageItem, Role, joined};

type Message = Map<String, Value>;

pub fn messages(instructions: Option<&str>, items: &[Item]) -> Vec<Message> {
    let mut transcript = Transcript::default();
    if let Some(instructions) = instructions.filter(|text| !text.is_empty()) {
        transcript.system.push(instructions.to_owned());
    }
    for item in items {
        transcript.add(item);
    }
    transcript.into_messages()
}

#[derive(Default)]
struct Transcript {
    /// What stands before the first message of anybody else.
    system: Vec<String>,
    messages: Vec<Message>,
    /// Belongs to the assistant's message that comes next.
    reasoning: Option<String>,
}

impl Transcript {
    fn add(&mut self, item: &Item) {
        match item {
            Item::Message(message) => self.add_message(message),
            Item::FunctionCall(call) if call.status == ItemStatus::Incomplete => {}
            Item::FunctionCall(call) => self.add_call(call),
            Item::FunctionCallOutput(result) => {
                let mut message = message_of("tool", result.output.clone());
                message.insert("tool_call_id".to_owned(), result.call_id.clone().into());
                self.messages.push(message);
            }
            Item::Reasoning(reasoning) => {
                let text = joined(&reasoning.content);
                self.reasoning = (!text.is_empty()).then_some(text);
            }
        }
    }

    fn add_message(&mut self, message: &MessageItem) {
        let text = joined(&message.content);
        match message.role {
            Role::System | Role::Developer if self.messages.is_empty() => self.system.push(text),
            Role::System | Role::Developer => self.messages.push(message_of("system", text)),
            Role::User => self.messages.push(message_of("user", text)),
            Role::Assistant => self.add_assistant(text.into()),
        }
    }

    fn add_assistant(&mut self, content: Value) {
        let mut message = message_of("assistant", content);
        if let Some(reasoning) = self.reasoning.take() {
            message.insert("reasoning_content".to_owned(), reasoning.into());
        }
        self.messages.push(message);
    }

    fn add_call(&mut self, call: &CallItem) {
        let follows = self.messages.last().is_some_and(|last| last["role"] == "assistant");
        if !follows || self.reasoning.is_some() {
            self.add_assistant(Value::Null);
        }
        let message = self.messages.last_mut().expect("an assistant's message is the last");
        let calls = message.entry("tool_calls").or_insert_with(|| json!([]));
        if let Value::Array(calls) = calls {
            let CallItem { call_id, name, arguments, .. } = call;
            let function = json!({"name": name, "arguments": arguments});
            calls.push(json!({"id": call_id, "type": "function", "function": function}));
        }
    }

    fn into_messages(self) -> Vec<Message> {
        let system = (!self.system.is_empty()).then(|| self.system.join("\n\n"));
        let system = system.map(|text| message_of("system", text));
        system.into_iter().chain(self.messages).collect()
    }
}

fn message_of(role: &str, content: impl Into<Value>) -> Message {
    Map::from_iter([("role".to_owned(), role.into()), ("content".to_owned(), content.into())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Fields;
    use crate::openai::responses::input::{InputEntry, take_input};

    #[track_caller]
    fn check(instructions: Option<&str>, input: Value, want: Value) {
        let body = json!({"input": input}).to_string();
        let entries = take_input(&mut Fields::parse(body.as_bytes()).unwrap()).unwrap();
        let items = entries.into_iter().map(|entry| match entry {
            InputEntry::New(item) => item,
            InputEntry::Reference(id) => panic!("a reference to {id}"),
        });
        let items: Vec<_> = items.collect();
        assert_eq!(json!(messages(instructions, &items)), want);
    }

    #[test]
    fn the_systems_messages_at_the_beginning_are_one() {
        check(
            Some("Be kind."),
            json!([{"role": "developer", "content": "Be short."}, {"role": "user", "content": "Hi"},
                {"role": "system", "content": "Stop."}]),
            json!([{"role": "system", "content": "Be kind.\n\nBe short."},
                {"role": "user", "content": "Hi"}, {"role": "system", "content": "Stop."}]),
        );
        check(None, json!("Hi"), json!([{"role": "user", "content": "Hi"}]));
    }

    fn call(name: &str, status: &str) -> Value {
        json!({"type": "function_call", "call_id": name, "name": name, "arguments": "{}",
            "status": status})
    }

    fn written(name: &str) -> Value {
        json!({"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}})
    }

    #[test]
    fn calls_join_the_message_before_them() {
        let result = json!({"type": "function_call_output", "call_id": "f", "output": "1"});
        let said = json!({"role": "assistant", "content": "Look:"});
        check(
            None,
            json!([said, call("f", "completed"), call("g", "completed"), result]),
            json!([
                {"role": "assistant", "content": "Look:",
                 "tool_calls": [written("f"), written("g")]},
                {"role": "tool", "content": "1", "tool_call_id": "f"},
            ]),
        );
        check(
            None,
            json!([{"role": "user", "content": "Hi"}, call("f", "completed")]),
            json!([{"role": "user", "content": "Hi"},
                {"role": "assistant", "content": null, "tool_calls": [written("f")]}]),
        );
    }

    #[test]
    fn a_call_that_was_cut_is_left_out() {
        let user = json!({"role": "user", "content": "Hi"});
        check(None, json!([user, call("f", "incomplete")]), json!([user]));
    }

    #[test]
    fn reasoning_goes_to_the_message_after_it() {
        let thought = json!({"type": "reasoning",
            "summary": [{"type": "summary_text", "text": "S"}],
            "content": [{"type": "reasoning_text", "text": "Hm"}]});
        check(
            None,
            json!([thought, {"role": "assistant", "content": "Yes"}]),
            json!([{"role": "assistant", "content": "Yes", "reasoning_content": "Hm"}]),
        );
        check(
            None,
            json!([{"role": "assistant", "content": "a"}, thought, call("f", "completed")]),
            json!([{"role": "assistant", "content": "a"}, {"role": "assistant", "content": null,
                "reasoning_content": "Hm", "tool_calls": [written("f")]}]),
        );
    }
}
