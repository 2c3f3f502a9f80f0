//! The fields `tools`, `tool_choice` and `parallel_tool_calls`.
//!
//! A tool has its name and parameters at its top level here, and under `function` in a chat.

use serde_json::{Map, Value, json};

use crate::api_error::{ApiError, ApiResult};
use crate::fields::{Fields, Kind};
use crate::tools::ToolOffer;

/// OpenAI's limit.
const MAX_TOOLS: usize = 128;

#[derive(Debug)]
pub struct ResponseTools {
    /// What the response repeats.
    pub tools: Vec<Value>,
    pub choice: Value,
    pub is_parallel: bool,
    pub offer: Option<ToolOffer>,
}

impl ResponseTools {
    pub fn take(fields: &mut Fields) -> ApiResult<Self> {
        let given = fields.take_objects("tools", MAX_TOOLS)?.unwrap_or_default();
        let tools: Vec<Value> = given.into_iter().map(read_tool).collect::<Result<_, _>>()?;
        let is_parallel = fields.take("parallel_tool_calls")?.unwrap_or(true);
        let choice = Choice::take(fields)?;
        let allowed = choice.allowed(&tools)?;
        let offer = ToolOffer::new(allowed, Some(choice.for_chat()), is_parallel)
            .map_err(|error| error.reworded("].function.", "]."))?;
        Ok(Self { tools, choice: choice.for_response(), is_parallel, offer })
    }
}

/// A function as the response repeats it.
fn read_tool(mut tool: Fields) -> ApiResult<Value> {
    let kind: String = tool.require("type")?;
    if kind != "function" {
        let path = tool.path_of("type");
        let message =
            format!("{path} is {kind:?}: this server runs no tools of its own; offer functions");
        return Err(ApiError::invalid(&path, message));
    }
    let name: String = tool.require("name")?;
    let description: Option<String> = tool.take("description")?;
    let parameters: Option<Map<String, Value>> = tool.take("parameters")?;
    let strict: Option<bool> = tool.take("strict")?;
    tool.finish()?;
    Ok(json!({
        "type": "function", "name": name, "description": description, "parameters": parameters,
        "strict": strict,
    }))
}

/// The same function as a chat has it.
fn chat_tool(tool: &Value) -> Value {
    let mut function = tool.as_object().cloned().unwrap_or_default();
    function.retain(|name, value| name != "type" && !value.is_null());
    json!({"type": "function", "function": function})
}

/// Which functions may or must be called.
#[derive(Debug, PartialEq)]
enum Choice {
    /// `none`, `auto` or `required`; checked where the tools are offered.
    Mode(String),
    Function(String),
    /// Only these, in one of the modes.
    Allowed {
        mode: String,
        names: Vec<String>,
    },
}

impl Choice {
    fn take(fields: &mut Fields) -> ApiResult<Self> {
        if fields.kind_of("tool_choice") != Some(Kind::Object) {
            let mode = fields.take("tool_choice")?;
            return Ok(Self::Mode(mode.unwrap_or_else(|| "auto".to_owned())));
        }
        let choice = fields.take_object("tool_choice")?;
        let mut choice = choice.expect("it is an object");
        let kind: String = choice.require("type")?;
        let read = match kind.as_str() {
            "function" => Self::Function(choice.require("name")?),
            "allowed_tools" => Self::read_allowed(&mut choice)?,
            other => {
                let message =
                    format!("tool_choice.type is {other:?}: it must be function or allowed_tools");
                return Err(ApiError::invalid("tool_choice.type", message));
            }
        };
        choice.finish()?;
        Ok(read)
    }

    fn read_allowed(choice: &mut Fields) -> ApiResult<Self> {
        let mode: String = choice.require("mode")?;
        if !["auto", "required"].contains(&mode.as_str()) {
            let message = format!("tool_choice.mode is {mode:?}: it must be auto or required");
            return Err(ApiError::invalid("tool_choice.mode", message));
        }
        let tools = choice.take_objects("tools", MAX_TOOLS)?.unwrap_or_default();
        let name = |mut tool: Fields| {
            let kind: String = tool.require("type")?;
            if kind != "function" {
                let path = tool.path_of("type");
                let message = format!("{path} is {kind:?}: it must be function");
                return Err(ApiError::invalid(&path, message));
            }
            let name: String = tool.require("name")?;
            tool.finish()?;
            Ok(name)
        };
        let names = tools.into_iter().map(name).collect::<Result<_, _>>()?;
        Ok(Self::Allowed { mode, names })
    }

    /// The functions that are offered, as a chat has them.
    fn allowed(&self, tools: &[Value]) -> ApiResult<Vec<Value>> {
        let Self::Allowed { names, .. } = self else {
            return Ok(tools.iter().map(chat_tool).collect());
        };
        let named = |name: &String| {
            let tool = tools.iter().find(|tool| tool["name"] == name.as_str());
            tool.map(chat_tool).ok_or_else(|| {
                let message = format!("tool_choice.tools names {name:?}, which is not in tools");
                ApiError::invalid("tool_choice.tools", message)
            })
        };
        names.iter().map(named).collect()
    }

    fn for_chat(&self) -> Value {
        match self {
            Self::Mode(mode) | Self::Allowed { mode, .. } => json!(mode),
            Self::Function(name) => json!({"type": "function", "function": {"name": name}}),
        }
    }

    fn for_response(&self) -> Value {
        match self {
            Self::Mode(mode) => json!(mode),
            Self::Function(name) => json!({"type": "function", "name": name}),
            Self::Allowed { mode, names } => {
                let tool = |name| json!({"type": "function", "name": name});
                let tools: Vec<_> = names.iter().map(tool).collect();
                json!({"type": "allowed_tools", "mode": mode, "tools": tools})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(body: Value) -> ApiResult<ResponseTools> {
        let mut fields = Fields::parse(body.to_string().as_bytes())?;
        let tools = ResponseTools::take(&mut fields)?;
        fields.finish()?;
        Ok(tools)
    }

    fn function(name: &str) -> Value {
        json!({"type": "function", "name": name, "description": null,
            "parameters": {"type": "object"}, "strict": true})
    }

    #[track_caller]
    fn check(choice: Value, must_call: bool, want: &[&str]) {
        let body = json!({"tools": [function("f"), function("g")], "tool_choice": choice});
        let tools = take(body).unwrap();
        let offer = tools.offer.expect("functions are offered");
        let names: Vec<_> = offer.functions().into_iter().map(|(name, _)| name).collect();
        assert_eq!((offer.must_call(), names.as_slice()), (must_call, want), "{choice}");
        assert_eq!(tools.choice, if choice.is_null() { json!("auto") } else { choice });
        assert_eq!(tools.tools, [function("f"), function("g")]);
        let described = json!({"type": "function", "function": {"name": want[0],
            "parameters": {"type": "object"}, "strict": true}});
        assert!(offer.described().as_array().expect("a list").contains(&described));
    }

    #[test]
    fn a_call_is_free_or_required() {
        check(Value::Null, false, &["f", "g"]);
        check(json!("auto"), false, &["f", "g"]);
        check(json!("required"), true, &["f", "g"]);
        check(json!({"type": "function", "name": "g"}), true, &["g"]);
        let only = |mode: &str| {
            json!({"type": "allowed_tools", "mode": mode,
                "tools": [{"type": "function", "name": "g"}]})
        };
        check(only("auto"), false, &["g"]);
        check(only("required"), true, &["g"]);
        let none = take(json!({"tools": [function("f")], "tool_choice": "none"})).unwrap();
        assert_eq!((none.offer, none.tools.len()), (None, 1));
        assert_eq!(take(json!({})).unwrap().offer, None);
    }

    #[track_caller]
    fn check_refused(body: Value, param: &str, want: &str) {
        take(body).unwrap_err().check_says(param, want);
    }

    #[test]
    fn what_cannot_be_offered_is_named() {
        for kind in ["web_search", "file_search", "computer_use_preview", "mcp", "custom"] {
            check_refused(json!({"tools": [{"type": kind}]}), "tools[0].type", kind);
        }
        check_refused(json!({"tools": [{"type": "function"}]}), "tools[0].name", "is missing");
        let spaced = json!({"tools": [{"type": "function", "name": "a b"}]});
        check_refused(spaced, "tools", "tools[0].name must have 1 to 64");
        let list = json!({"tools": [{"type": "function", "name": "f", "parameters": []}]});
        check_refused(list, "tools[0].parameters", "must be an object");
        check_refused(json!({"tool_choice": "required"}), "tool_choice", "no tools");
        check_refused(json!({"tool_choice": {"type": "mcp"}}), "tool_choice.type", "\"mcp\"");
        let other = json!({"type": "function", "name": "h"});
        check_refused(
            json!({"tools": [function("f")], "tool_choice": other}),
            "tool_choice",
            "\"h\"",
        );
        let allowed = json!({"type": "allowed_tools", "mode": "auto",
            "tools": [{"type": "function", "name": "h"}]});
        check_refused(json!({"tool_choice": allowed}), "tool_choice.tools", "\"h\"");
    }
}
