//! `tools` and `tool_choice`, in the shapes that chat templates and [`ToolOffer`] know.

use serde_json::{Map, Value, json};

use super::unknown_value;
use crate::api_error::{ApiError, ApiResult};
use crate::fields::Fields;
use crate::tools::ToolOffer;

/// As on the other routes.
const MAX_TOOLS: usize = 128;

/// `None` where nothing is offered, or the model must call nothing.
pub fn take_offer(fields: &mut Fields) -> ApiResult<Option<ToolOffer>> {
    let tools = fields.take_objects("tools", MAX_TOOLS)?.unwrap_or_default();
    let tools = tools.into_iter().map(take_tool).collect::<Result<_, _>>()?;
    let choice = fields.take_object("tool_choice")?.map(Choice::take).transpose()?;
    let Choice { call, is_parallel } = choice.unwrap_or_default();
    let offer = ToolOffer::new(tools, call, is_parallel);
    offer.map_err(|error| error.reworded(".function.name", ".name"))
}

/// A function in OpenAI's shape.
fn take_tool(mut fields: Fields) -> ApiResult<Value> {
    if let Some(kind) = fields.take::<String>("type")?
        && kind != "custom"
    {
        let path = fields.path_of("type");
        let message = format!(
            "{path} is {kind:?}: this server runs no tools of its own and knows only those of \
             the type \"custom\", which have an input_schema"
        );
        return Err(ApiError::invalid(&path, message));
    }
    let mut function = Map::new();
    function.insert("name".into(), fields.require::<String>("name")?.into());
    if let Some(description) = fields.take::<String>("description")? {
        function.insert("description".into(), description.into());
    }
    let schema: Map<_, _> = fields.require("input_schema")?;
    function.insert("parameters".into(), schema.into());
    if let Some(is_strict) = fields.take::<bool>("strict")? {
        function.insert("strict".into(), is_strict.into());
    }
    check_callers(&mut fields)?;
    fields.refuse("defer_loading", "there is no tool search; offer the tool in every request")?;
    fields.refuse("input_examples", "chat templates do not show them; use the description")?;
    // Every prefix is cached and every input streamed as it is decoded anyway.
    fields.ignore(&["cache_control", "eager_input_streaming"]);
    fields.finish()?;
    Ok(json!({"type": "function", "function": function}))
}

/// Here the model calls a tool itself, or nobody does.
fn check_callers(fields: &mut Fields) -> ApiResult<()> {
    let Some(callers) = fields.take::<Vec<String>>("allowed_callers")? else { return Ok(()) };
    match callers.iter().any(|caller| caller == "direct") {
        true => Ok(()),
        false => {
            let path = fields.path_of("allowed_callers");
            let message = format!("{path} must have \"direct\": only the model calls tools here");
            Err(ApiError::invalid(&path, message))
        }
    }
}

struct Choice {
    /// In OpenAI's shape.
    call: Option<Value>,
    is_parallel: bool,
}

impl Default for Choice {
    fn default() -> Self {
        Self { call: None, is_parallel: true }
    }
}

impl Choice {
    fn take(mut fields: Fields) -> ApiResult<Self> {
        let kind: String = fields.require("type")?;
        let call = match kind.as_str() {
            "auto" => json!("auto"),
            "any" => json!("required"),
            "none" => json!("none"),
            "tool" => {
                let name: String = fields.require("name")?;
                json!({"type": "function", "function": {"name": name}})
            }
            other => {
                let known = "\"auto\", \"any\", \"tool\" or \"none\"";
                return Err(unknown_value(&fields.path_of("type"), other, known));
            }
        };
        let is_single = fields.take("disable_parallel_tool_use")?.unwrap_or(false);
        fields.finish()?;
        Ok(Self { call: Some(call), is_parallel: !is_single })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::taken;

    fn take(body: &Value) -> ApiResult<Option<ToolOffer>> {
        taken(body, take_offer)
    }

    fn two() -> Value {
        let schema = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
        json!([
            {"name": "f", "description": "Eff.", "input_schema": schema, "strict": true,
             "cache_control": {"type": "ephemeral"}, "allowed_callers": ["direct"]},
            {"type": "custom", "name": "g", "input_schema": {"type": "object"}},
        ])
    }

    #[track_caller]
    fn check(choice: Value, must_call: bool, want: &[&str], is_parallel: bool) {
        let offer = take(&json!({"tools": two(), "tool_choice": choice})).unwrap().unwrap();
        offer.check_is(must_call, want, is_parallel);
    }

    #[track_caller]
    fn check_refused(body: Value, want: &str) {
        assert_eq!(take(&body).unwrap_err().message(), want);
    }

    #[test]
    fn tools_are_described_as_templates_want_them() {
        let offer = take(&json!({"tools": two()})).unwrap().unwrap();
        let want = json!([
            {"type": "function", "function": {"name": "f", "description": "Eff.", "parameters":
                {"type": "object", "properties": {"x": {"type": "integer"}}}, "strict": true}},
            {"type": "function", "function": {"name": "g", "parameters": {"type": "object"}}},
        ]);
        assert_eq!(offer.described(), want);
    }

    #[test]
    fn a_call_is_free_demanded_or_forbidden() {
        check(Value::Null, false, &["f", "g"], true);
        check(json!({"type": "auto"}), false, &["f", "g"], true);
        check(json!({"type": "any"}), true, &["f", "g"], true);
        check(json!({"type": "any", "disable_parallel_tool_use": true}), true, &["f", "g"], false);
        check(json!({"type": "tool", "name": "g"}), true, &["g"], false);
        let none = json!({"tools": two(), "tool_choice": {"type": "none"}});
        assert_eq!(take(&none), Ok(None));
        assert_eq!(take(&json!({})), Ok(None));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        check_refused(
            json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
            "tools[0].type is \"web_search_20250305\": this server runs no tools of its own and \
             knows only those of the type \"custom\", which have an input_schema",
        );
        check_refused(json!({"tools": [{"name": "f"}]}), "tools[0].input_schema is missing");
        check_refused(
            json!({"tools": [{"name": "a b", "input_schema": {}}]}),
            "tools[0].name must have 1 to 64 letters, digits, underscores, dots or dashes",
        );
        check_refused(
            json!({"tools": [{"name": "f", "input_schema": {}, "allowed_callers": ["code"]}]}),
            "tools[0].allowed_callers must have \"direct\": only the model calls tools here",
        );
        check_refused(
            json!({"tools": [{"name": "f", "input_schema": {}, "defer_loading": true}]}),
            "tools[0].defer_loading is not supported: there is no tool search; offer the tool in \
             every request",
        );
        check_refused(
            json!({"tools": two(), "tool_choice": {"type": "all"}}),
            "tool_choice.type is \"all\": it must be \"auto\", \"any\", \"tool\" or \"none\"",
        );
        check_refused(
            json!({"tools": two(), "tool_choice": {"type": "tool"}}),
            "tool_choice.name is missing",
        );
        check_refused(
            json!({"tools": two(), "tool_choice": {"type": "tool", "name": "h"}}),
            "tool_choice names \"h\", which is not in tools",
        );
    }
}
