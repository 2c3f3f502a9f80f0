//! Ollama's messages in OpenAI's shape, which the rest of this server and chat templates know.
//!
//! Calls have arguments that are objects and mostly no ids; a result names its function, not its
//! call. The ids that are missing are counted, so that the same conversation is always the same
//! prompt.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use crate::api_error::{ApiError, ApiResult};

/// `messages` as OpenAI's clients would send them.
pub fn converted(messages: Vec<Map<String, Value>>) -> ApiResult<Vec<Map<String, Value>>> {
    let mut calls = Calls::default();
    let messages = messages.into_iter().enumerate();
    messages.map(|(index, message)| calls.converted(index, message)).collect()
}

/// The calls that no message has brought the result of yet.
#[derive(Default)]
struct Calls {
    pending: VecDeque<Call>,
    count: usize,
}

struct Call {
    id: String,
    name: String,
}

impl Calls {
    fn converted(
        &mut self,
        index: usize,
        mut message: Map<String, Value>,
    ) -> ApiResult<Map<String, Value>> {
        message.retain(|_, value| !value.is_null());
        if message.remove("images").is_some_and(|images| images != Value::Array(Vec::new())) {
            let reason = ".images is not supported: this model reads text only";
            return Err(invalid(index, reason));
        }
        message.entry("content").or_insert_with(|| "".into());
        if let Some(thinking) = message.get("thinking").cloned() {
            // Templates look for one name or the other.
            message.entry("reasoning_content").or_insert(thinking);
        }
        if let Some(calls) = message.get_mut("tool_calls") {
            let Value::Array(calls) = calls else {
                return Err(invalid(index, ".tool_calls must be a list"));
            };
            for (number, call) in calls.iter_mut().enumerate() {
                self.add(index, number, call)?;
            }
        }
        if message.get("role").is_some_and(|role| role == "tool") {
            self.attribute(&mut message);
        }
        Ok(message)
    }

    fn add(&mut self, index: usize, number: usize, call: &mut Value) -> ApiResult<()> {
        let wrong = |rest: &str| Err(invalid(index, &format!(".tool_calls[{number}]{rest}")));
        let Some(name) = call["function"]["name"].as_str().map(str::to_owned) else {
            return wrong(".function.name must be a string");
        };
        let function = &mut call["function"];
        if function["arguments"].is_null() {
            function["arguments"] = Value::Object(Map::new());
        }
        if !function["arguments"].is_object() {
            return wrong(".function.arguments must be an object");
        }
        let given = call["id"].as_str().filter(|id| !id.is_empty()).map(str::to_owned);
        // Nine letters and digits: some models' templates take a call's name in no other form.
        let id = given.unwrap_or_else(|| format!("call{:05}", self.count));
        call["id"] = id.as_str().into();
        call["type"] = "function".into();
        self.count += 1;
        self.pending.push_back(Call { id, name });
        Ok(())
    }

    /// Names the call whose result the message brings: the first open one of its function.
    fn attribute(&mut self, message: &mut Map<String, Value>) {
        let given = message.get("tool_call_id").and_then(Value::as_str);
        let name = message.get("tool_name").and_then(Value::as_str).map(str::to_owned);
        let found = self.pending.iter().position(|call| match (given, &name) {
            (Some(id), _) => call.id == id,
            (None, Some(name)) => call.name == *name,
            (None, None) => true,
        });
        let call = found.and_then(|at| self.pending.remove(at));
        if let Some(Call { id, name: called }) = call {
            message.entry("tool_call_id").or_insert_with(|| id.into());
            message.entry("name").or_insert_with(|| called.into());
        } else if let Some(name) = name {
            message.entry("name").or_insert_with(|| name.into());
        }
    }
}

fn invalid(index: usize, rest: &str) -> ApiError {
    ApiError::invalid("messages", format!("messages[{index}]{rest}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn convert(messages: Value) -> ApiResult<Value> {
        let messages = serde_json::from_value(messages).unwrap();
        Ok(converted(messages)?.into_iter().map(Value::Object).collect())
    }

    #[test]
    fn plain_messages_stay() {
        let plain = json!([{"role": "user", "content": "hi"}]);
        assert_eq!(convert(plain.clone()), Ok(plain));
        let sparse = json!([{"role": "user", "images": null}, {"role": "user", "images": []}]);
        let empty = json!({"role": "user", "content": ""});
        assert_eq!(convert(sparse), Ok(json!([empty, empty])));
    }

    #[test]
    fn results_find_their_calls() {
        let call = |name: &str| json!({"function": {"name": name, "arguments": {"x": 1}}});
        let chat = json!([
            {"role": "assistant", "thinking": "Hm.", "tool_calls": [call("f"), call("g")]},
            {"role": "tool", "tool_name": "g", "content": "2"},
            {"role": "tool", "content": "1"},
        ]);
        let converted = convert(chat).unwrap();
        assert_eq!(converted[0]["reasoning_content"], "Hm.");
        let calls = converted[0]["tool_calls"].as_array().unwrap();
        assert_eq!((&calls[0]["id"], &calls[0]["type"]), (&json!("call00000"), &json!("function")));
        assert_eq!(calls[0]["function"]["arguments"], json!({"x": 1}));
        let results = |index: usize| (&converted[index]["tool_call_id"], &converted[index]["name"]);
        assert_eq!(results(1), (&json!("call00001"), &json!("g")));
        assert_eq!(results(2), (&json!("call00000"), &json!("f")));
    }

    #[test]
    fn what_cannot_be_read_says_where() {
        let check = |message: Value, want: &str| {
            assert_eq!(convert(json!([message])).unwrap_err().message(), want);
        };
        check(
            json!({"role": "user", "content": "a", "images": ["aGk="]}),
            "messages[0].images is not supported: this model reads text only",
        );
        check(
            json!({"role": "assistant",
                "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}),
            "messages[0].tool_calls[0].function.arguments must be an object",
        );
        check(
            json!({"role": "assistant", "tool_calls": [{}]}),
            "messages[0].tool_calls[0].function.name must be a string",
        );
        check(
            json!({"role": "assistant", "tool_calls": [3]}),
            "messages[0].tool_calls[0].function.name must be a string",
        );
        check(json!({"role": "a", "tool_calls": {}}), "messages[0].tool_calls must be a list");
    }
}
