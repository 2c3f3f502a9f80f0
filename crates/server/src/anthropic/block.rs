//! One block of a message's content, as a request gives it.

use serde_json::{Map, Value};

use super::unknown_value;
use crate::api_error::{ApiError, ApiResult};
use crate::fields::{Fields, Kind};

#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    Text(String),
    /// A call that the model made.
    ToolUse {
        id: String,
        name: String,
        input: Map<String, Value>,
    },
    /// What a call has given.
    ToolResult {
        tool_use_id: String,
        text: String,
    },
    Thinking(String),
    /// Thinking that only Anthropic can read.
    RedactedThinking,
}

/// In one list.
const MAX_BLOCKS: usize = 8_192;

const KNOWN: &str = "\"text\", \"tool_use\", \"tool_result\", \"thinking\" or \
                     \"redacted_thinking\"";

/// What is put before the result of a call that failed: chat templates have no other sign for it.
const ERROR_PREFIX: &str = "Error: ";

/// The blocks of a message; a text alone is one block.
pub fn take_blocks(message: &mut Fields) -> ApiResult<Vec<Block>> {
    match message.kind_of("content") {
        Some(Kind::String) => Ok(vec![Block::Text(message.require("content")?)]),
        _ => {
            let blocks = message.take_objects("content", MAX_BLOCKS)?;
            let blocks = blocks.ok_or_else(|| ApiError::missing(&message.path_of("content")))?;
            blocks.into_iter().map(take_block).collect()
        }
    }
}

/// A text, or text blocks one after the other.
pub fn take_text(fields: &mut Fields, name: &str) -> ApiResult<Option<String>> {
    if fields.kind_of(name) == Some(Kind::String) {
        return fields.take(name);
    }
    let Some(blocks) = fields.take_objects(name, MAX_BLOCKS)? else { return Ok(None) };
    let texts = blocks.into_iter().map(|block| {
        let path = block.path_of("type");
        match take_block(block)? {
            Block::Text(text) => Ok(text),
            _ => Err(ApiError::invalid(&path, format!("{path} must be \"text\" here"))),
        }
    });
    texts.collect::<Result<_, _>>().map(Some)
}

fn take_block(mut fields: Fields) -> ApiResult<Block> {
    let kind: String = fields.require("type")?;
    let block = match kind.as_str() {
        "text" => {
            // Where a quotation comes from; the text itself has the words.
            fields.ignore(&["citations"]);
            Block::Text(fields.require("text")?)
        }
        "tool_use" => take_tool_use(&mut fields)?,
        "tool_result" => take_tool_result(&mut fields)?,
        "thinking" => {
            fields.ignore(&["signature"]);
            Block::Thinking(fields.require("thinking")?)
        }
        "redacted_thinking" => {
            fields.ignore(&["data"]);
            Block::RedactedThinking
        }
        other => return Err(unreadable(&fields.path_of("type"), other)),
    };
    // Every prefix is cached anyway.
    fields.ignore(&["cache_control"]);
    fields.finish()?;
    Ok(block)
}

fn take_tool_use(fields: &mut Fields) -> ApiResult<Block> {
    // Who calls is always the model, and no tool is of a set.
    fields.ignore(&["caller", "toolset_name"]);
    let id = fields.require("id")?;
    let name = fields.require("name")?;
    Ok(Block::ToolUse { id, name, input: fields.require("input")? })
}

fn take_tool_result(fields: &mut Fields) -> ApiResult<Block> {
    fields.ignore(&["toolset_name"]);
    let tool_use_id = fields.require("tool_use_id")?;
    let text = take_text(fields, "content")?.unwrap_or_default();
    let text = match fields.take("is_error")? {
        Some(true) => format!("{ERROR_PREFIX}{text}"),
        _ => text,
    };
    Ok(Block::ToolResult { tool_use_id, text })
}

fn unreadable(path: &str, kind: &str) -> ApiError {
    let is_of_server_tool = kind.starts_with("server_tool_") || kind.ends_with("_tool_result");
    let reason = match kind {
        "image" | "document" | "search_result" | "container_upload" => {
            "this model reads text only; put what it says into text blocks"
        }
        _ if is_of_server_tool => "this server runs no tools of its own",
        _ => return unknown_value(path, kind, KNOWN),
    };
    ApiError::invalid(path, format!("{path} is {kind:?}: {reason}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn take(content: Value) -> ApiResult<Vec<Block>> {
        let message = json!({"content": content}).to_string();
        take_blocks(&mut Fields::parse(message.as_bytes())?)
    }

    #[track_caller]
    fn check_refused(content: Value, want: &str) {
        let error = take(content).unwrap_err();
        assert_eq!(error.message(), want);
    }

    #[test]
    fn every_known_block_is_read() {
        let blocks = take(json!([
            {"type": "text", "text": "a", "citations": null,
             "cache_control": {"type": "ephemeral"}},
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x": 1}},
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "42"},
            {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": true,
             "content": [{"type": "text", "text": "no "}, {"type": "text", "text": "file"}]},
            {"type": "tool_result", "tool_use_id": "toolu_3"},
            {"type": "thinking", "thinking": "Hm.", "signature": ""},
            {"type": "redacted_thinking", "data": "x"},
        ]))
        .unwrap();
        let result = |id: &str, text: &str| Block::ToolResult {
            tool_use_id: id.to_owned(),
            text: text.to_owned(),
        };
        let input = json!({"x": 1}).as_object().unwrap().clone();
        let want = [
            Block::Text("a".to_owned()),
            Block::ToolUse { id: "toolu_1".to_owned(), name: "f".to_owned(), input },
            result("toolu_1", "42"),
            result("toolu_2", "Error: no file"),
            result("toolu_3", ""),
            Block::Thinking("Hm.".to_owned()),
            Block::RedactedThinking,
        ];
        assert_eq!(blocks, want);
        assert_eq!(take(json!("a")).unwrap(), [Block::Text("a".to_owned())]);
    }

    #[test]
    fn what_the_model_cannot_read_is_refused() {
        check_refused(
            json!([{"type": "text", "text": "a"}, {"type": "image", "source": {}}]),
            "content[1].type is \"image\": this model reads text only; put what it says into \
             text blocks",
        );
        check_refused(
            json!([{"type": "tool_result", "tool_use_id": "t", "content": [
                {"type": "document", "source": {}}]}]),
            "content[0].content[0].type is \"document\": this model reads text only; put what it \
             says into text blocks",
        );
        check_refused(
            json!([{"type": "web_search_tool_result", "tool_use_id": "t", "content": []}]),
            "content[0].type is \"web_search_tool_result\": this server runs no tools of its own",
        );
    }

    #[test]
    fn bad_blocks_say_which_and_why() {
        check_refused(Value::Null, "content is missing");
        check_refused(json!(5), "content must be a list, not a number (5)");
        check_refused(json!(["a"]), "content[0] must be an object, not a string (\"a\")");
        check_refused(json!([{"text": "a"}]), "content[0].type is missing");
        check_refused(json!([{"type": "text"}]), "content[0].text is missing");
        check_refused(
            json!([{"type": "poem", "text": "a"}]),
            &format!("content[0].type is \"poem\": it must be {KNOWN}"),
        );
        check_refused(
            json!([{"type": "text", "text": "a", "font": 1}]),
            "unknown field \"content[0].font\"",
        );
        check_refused(
            json!([{"type": "tool_use", "id": "t", "name": "f", "input": "{}"}]),
            "content[0].input must be an object, not a string (\"{}\")",
        );
        check_refused(
            json!([{"type": "tool_result", "tool_use_id": "t", "content": [
                {"type": "thinking", "thinking": "Hm."}]}]),
            "content[0].content[0].type must be \"text\" here",
        );
    }
}
