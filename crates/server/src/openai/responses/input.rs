//! The field `input`: a text, or items.

use serde_json::{Map, Value};

use crate::api_error::{ApiError, ApiResult};
use crate::fields::{Fields, Kind};
use crate::ids;
use crate::openai::responses::item::{
    CallItem, CallOutputItem, ContentPart, Item, ItemStatus, MessageItem, ReasoningItem, Role,
};

/// As many as a chat may have messages.
const MAX_ITEMS: usize = 8_192;
const MAX_PARTS: usize = 8_192;

const TEXT_ONLY: &str = "this model reads text only";

/// An item as the request has it.
#[derive(Debug, PartialEq)]
pub enum InputEntry {
    New(Item),
    /// One that an earlier response has, by its id.
    Reference(String),
}

pub fn take_input(fields: &mut Fields) -> ApiResult<Vec<InputEntry>> {
    if fields.kind_of("input") == Some(Kind::String) {
        let text = fields.take("input")?.unwrap_or_default();
        return Ok(vec![InputEntry::New(Item::user(ids::unique("msg_"), text))]);
    }
    let items = fields.take_objects("input", MAX_ITEMS)?;
    let items = items.ok_or_else(|| ApiError::missing("input"))?;
    if items.is_empty() {
        return Err(ApiError::invalid("input", "input is empty; give at least one item"));
    }
    items.into_iter().map(read_entry).collect()
}

fn read_entry(mut fields: Fields) -> ApiResult<InputEntry> {
    let kind: Option<String> = fields.take("type")?;
    let is_reference = fields.kind_of("role").is_none() && fields.kind_of("id").is_some();
    let item = match kind.as_deref() {
        Some("message") => read_message(&mut fields)?,
        Some("function_call") => read_call(&mut fields)?,
        Some("function_call_output") => read_call_output(&mut fields)?,
        Some("reasoning") => read_reasoning(&mut fields)?,
        Some("item_reference") => return read_reference(fields),
        // OpenAI's clients may leave these two types out.
        None if is_reference => return read_reference(fields),
        None => read_message(&mut fields)?,
        Some(other) => {
            let path = fields.path_of("type");
            let message = format!(
                "{path} is {other:?}: it must be message, function_call, function_call_output, \
                 reasoning or item_reference"
            );
            return Err(ApiError::invalid(&path, message));
        }
    };
    fields.finish()?;
    Ok(InputEntry::New(item))
}

fn read_reference(mut fields: Fields) -> ApiResult<InputEntry> {
    let id: String = fields.require("id")?;
    fields.finish()?;
    Ok(InputEntry::Reference(id))
}

fn read_message(fields: &mut Fields) -> ApiResult<Item> {
    let id = take_id(fields, "msg_")?;
    let status = take_status(fields)?;
    let role = match fields.require::<String>("role")?.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        "developer" => Role::Developer,
        other => {
            let path = fields.path_of("role");
            let message =
                format!("{path} is {other:?}: it must be user, assistant, system or developer");
            return Err(ApiError::invalid(&path, message));
        }
    };
    let as_part = |text| match role {
        Role::Assistant => ContentPart::output(text),
        _ => ContentPart::Input { text },
    };
    let content = take_texts(fields, "content")?.into_iter().map(as_part).collect();
    // Says which of an assistant's messages was its last; templates do not know it.
    fields.ignore(&["phase"]);
    Ok(Item::Message(MessageItem { id, status, role, content }))
}

fn read_call(fields: &mut Fields) -> ApiResult<Item> {
    let call = CallItem {
        id: take_id(fields, "fc_")?,
        status: take_status(fields)?,
        call_id: fields.require("call_id")?,
        name: fields.require("name")?,
        arguments: fields.require("arguments")?,
    };
    let is_object = serde_json::from_str::<Map<String, Value>>(&call.arguments).is_ok();
    if !is_object && call.status != ItemStatus::Incomplete {
        let path = fields.path_of("arguments");
        let message = format!("{path} must be the text of a JSON object");
        return Err(ApiError::invalid(&path, message));
    }
    fields.ignore(&["parsed_arguments"]);
    Ok(Item::FunctionCall(call))
}

fn read_call_output(fields: &mut Fields) -> ApiResult<Item> {
    Ok(Item::FunctionCallOutput(CallOutputItem {
        id: take_id(fields, "fco_")?,
        status: take_status(fields)?,
        call_id: fields.require("call_id")?,
        output: take_texts(fields, "output")?.concat(),
    }))
}

fn read_reasoning(fields: &mut Fields) -> ApiResult<Item> {
    let (id, status) = (take_id(fields, "rs_")?, take_status(fields)?);
    let texts = match fields.kind_of("content") {
        Some(_) => take_texts(fields, "content")?,
        None => Vec::new(),
    };
    let content = texts.into_iter().map(|text| ContentPart::Reasoning { text }).collect();
    // A summary is not what was thought, and nothing here can be decrypted.
    fields.ignore(&["summary", "encrypted_content"]);
    Ok(Item::Reasoning(ReasoningItem { id, status, summary: Vec::new(), content }))
}

/// One text, or the texts of a list of parts.
fn take_texts(fields: &mut Fields, name: &str) -> ApiResult<Vec<String>> {
    match fields.kind_of(name) {
        Some(Kind::String) => Ok(fields.take(name)?.into_iter().collect()),
        Some(Kind::Array) => {
            let parts = fields.take_objects(name, MAX_PARTS)?.unwrap_or_default();
            parts.into_iter().map(read_part).collect()
        }
        _ => {
            let path = fields.path_of(name);
            let message = format!("{path} must be a string or a list of text parts");
            Err(ApiError::invalid(&path, message))
        }
    }
}

fn read_part(mut part: Fields) -> ApiResult<String> {
    let text: String = match part.require::<String>("type")?.as_str() {
        "input_text" | "output_text" | "reasoning_text" | "text" => part.require("text")?,
        "refusal" => part.require("refusal")?,
        other => {
            let path = part.path_of("type");
            return Err(ApiError::invalid(&path, format!("{path} is {other:?}: {TEXT_ONLY}")));
        }
    };
    // What came with an output and says nothing to the model.
    part.ignore(&["annotations", "logprobs", "parsed"]);
    part.finish()?;
    Ok(text)
}

fn take_id(fields: &mut Fields, prefix: &str) -> ApiResult<String> {
    let given = fields.take::<String>("id")?.filter(|id| !id.is_empty());
    Ok(given.unwrap_or_else(|| ids::unique(prefix)))
}

fn take_status(fields: &mut Fields) -> ApiResult<ItemStatus> {
    match fields.take::<String>("status")?.as_deref() {
        None | Some("completed" | "in_progress") => Ok(ItemStatus::Completed),
        Some("incomplete") => Ok(ItemStatus::Incomplete),
        Some(other) => {
            let path = fields.path_of("status");
            let message =
                format!("{path} is {other:?}: it must be completed, incomplete or in_progress");
            Err(ApiError::invalid(&path, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn take(input: Value) -> ApiResult<Vec<InputEntry>> {
        let body = json!({"input": input}).to_string();
        take_input(&mut Fields::parse(body.as_bytes())?)
    }

    fn item(input: Value) -> Item {
        match take(json!([input])).unwrap().pop() {
            Some(InputEntry::New(item)) => item,
            other => panic!("no item: {other:?}"),
        }
    }

    #[track_caller]
    fn check_refused(input: Value, param: &str, want: &str) {
        take(input).unwrap_err().check_says(param, want);
    }

    #[test]
    fn a_text_is_a_users_message() {
        let entries = take(json!("hi")).unwrap();
        let [InputEntry::New(Item::Message(message))] = entries.as_slice() else {
            panic!("{entries:?}")
        };
        assert_eq!((message.role, joined(message)), (Role::User, "hi".to_owned()));
        assert!(message.id.starts_with("msg_"));
    }

    fn joined(message: &MessageItem) -> String {
        crate::openai::responses::item::joined(&message.content)
    }

    #[test]
    fn outputs_can_be_sent_back_as_they_came() {
        for output in [
            json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
                "content": [{"type": "output_text", "text": "Yes", "annotations": [],
                    "logprobs": []}]}),
            json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f",
                "arguments": "{\"a\": 1}", "status": "completed"}),
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "status": "completed",
                "content": [{"type": "reasoning_text", "text": "Hm"}]}),
            json!({"type": "function_call_output", "id": "fco_1", "call_id": "c1",
                "output": "42", "status": "completed"}),
        ] {
            assert_eq!(serde_json::to_value(item(output.clone())).unwrap(), output);
        }
    }

    #[test]
    fn content_and_results_may_be_parts() {
        let parts =
            json!([{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]);
        let Item::Message(message) = item(json!({"role": "developer", "content": parts})) else {
            panic!("no message")
        };
        assert_eq!((message.role, joined(&message)), (Role::Developer, "ab".to_owned()));
        let output = item(json!({"type": "function_call_output", "call_id": "c", "output": parts}));
        let Item::FunctionCallOutput(output) = output else { panic!("no result") };
        assert_eq!(output.output, "ab");
    }

    #[test]
    fn a_reference_is_known_by_its_type_or_its_id() {
        for input in [json!({"type": "item_reference", "id": "msg_1"}), json!({"id": "msg_1"})] {
            let want = InputEntry::Reference("msg_1".to_owned());
            assert_eq!(take(json!([input])).unwrap(), [want]);
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_path() {
        check_refused(Value::Null, "input", "input is missing");
        check_refused(json!([]), "input", "input is empty");
        check_refused(json!(7), "input", "must be a list, not a number (7)");
        check_refused(json!([1]), "input[0]", "must be an object");
        check_refused(json!([{"content": "a"}]), "input[0].role", "is missing");
        check_refused(json!([{"role": "tool", "content": "a"}]), "input[0].role", "\"tool\"");
        check_refused(json!([{"role": "user"}]), "input[0].content", "a string or a list");
        let image =
            json!([{"role": "user", "content": [{"type": "input_image", "image_url": "u"}]}]);
        check_refused(image, "input[0].content[0].type", "this model reads text only");
        let call = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "["});
        check_refused(json!([call]), "input[0].arguments", "the text of a JSON object");
        check_refused(json!([{"type": "web_search_call"}]), "input[0].type", "web_search_call");
        let unknown = json!([{"role": "user", "content": "a", "mood": "good"}]);
        check_refused(unknown, "input[0].mood", "unknown field");
        let many = Value::Array(vec![json!({}); MAX_ITEMS + 1]);
        check_refused(many, "input", "input has 8193 items, the limit is 8192");
    }
}
