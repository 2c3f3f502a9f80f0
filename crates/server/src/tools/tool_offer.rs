//! The functions a request offers, and whether the model must call one.

use serde_json::{Value, json};
use terrace_engine::guidance::close_objects;

use crate::api_error::{ApiError, ApiResult};
use crate::fields::Fields;

/// OpenAI's limit; each function is part of every prompt and of the grammar.
const MAX_TOOLS: usize = 128;
/// OpenAI's limit.
const MAX_NAME_CHARS: usize = 64;

/// At least one function, each with a name of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOffer {
    /// As they came, for the chat template.
    tools: Vec<Value>,
    must_call: MustCall,
    is_parallel: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum MustCall {
    Nothing,
    Any,
    Named(String),
}

impl ToolOffer {
    /// `None` where nothing is offered, or the model must call nothing.
    pub fn take(fields: &mut Fields) -> ApiResult<Option<Self>> {
        let tools = fields.take::<Vec<Value>>("tools")?.unwrap_or_default();
        let choice = fields.take_value("tool_choice")?;
        let is_parallel = fields.take("parallel_tool_calls")?.unwrap_or(true);
        Self::new(tools, choice, is_parallel)
    }

    /// `tools` and `choice` in OpenAI's shapes. `None` where nothing is offered, or the model is
    /// must call nothing.
    pub fn new(
        tools: Vec<Value>,
        choice: Option<Value>,
        is_parallel: bool,
    ) -> ApiResult<Option<Self>> {
        check_tools(&tools)?;
        let must_call = match &choice {
            None => MustCall::Nothing,
            Some(Value::String(choice)) => match choice.as_str() {
                "none" => return Ok(None),
                "auto" => MustCall::Nothing,
                "required" => MustCall::Any,
                other => return Err(bad_choice(format!("tool_choice {other:?} is not known"))),
            },
            Some(choice) => MustCall::Named(named(choice, &tools)?),
        };
        match (tools.is_empty(), &must_call) {
            (true, MustCall::Nothing) => Ok(None),
            (true, _) => Err(bad_choice("tool_choice asks for a call, but no tools are given")),
            (false, _) => Ok(Some(Self { tools, must_call, is_parallel })),
        }
    }

    /// The functions as chat templates want them.
    pub fn described(&self) -> Value {
        Value::Array(self.tools.clone())
    }

    /// Whether the output must be a call.
    pub fn must_call(&self) -> bool {
        self.must_call != MustCall::Nothing
    }

    /// The functions that may be called, with the schemas of their arguments.
    pub fn functions(&self) -> Vec<(&str, Value)> {
        let functions = self.tools.iter().map(|tool| {
            let parameters = &tool["function"]["parameters"];
            let mut schema = match parameters {
                Value::Null => json!({"type": "object", "additionalProperties": false}),
                schema => schema.clone(),
            };
            if tool["function"]["strict"] == true {
                close_objects(&mut schema);
            }
            (name_of(tool), schema)
        });
        match &self.must_call {
            MustCall::Nothing | MustCall::Any => functions.collect(),
            MustCall::Named(wanted) => functions.filter(|(name, _)| name == wanted).collect(),
        }
    }

    /// Whether an output may have several calls; one that was named comes once.
    pub fn is_parallel(&self) -> bool {
        self.is_parallel && !matches!(self.must_call, MustCall::Named(_))
    }
}

fn check_tools(tools: &[Value]) -> ApiResult<()> {
    let invalid = |message: String| Err(ApiError::invalid("tools", message));
    if MAX_TOOLS < tools.len() {
        return invalid(format!("tools has {} functions, the limit is {MAX_TOOLS}", tools.len()));
    }
    for (index, tool) in tools.iter().enumerate() {
        if tool["type"] != "function" {
            return invalid(format!("tools[{index}].type must be \"function\""));
        }
        let name = name_of(tool);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let fits = (1..=MAX_NAME_CHARS).contains(&name.len());
        if !fits || !name.chars().all(is_plain) {
            return invalid(format!(
                "tools[{index}].function.name must have 1 to {MAX_NAME_CHARS} letters, digits, \
                 underscores, dots or dashes"
            ));
        }
        if tools[..index].iter().any(|other| name_of(other) == name) {
            return invalid(format!("tools[{index}].function.name is {name:?}, as another's"));
        }
        let parameters = &tool["function"]["parameters"];
        if !parameters.is_null() && !parameters.is_object() {
            return invalid(format!("tools[{index}].function.parameters must be a JSON schema"));
        }
    }
    Ok(())
}

/// `{"type": "function", "function": {"name": ..}}`
fn named(choice: &Value, tools: &[Value]) -> ApiResult<String> {
    let Some(name) = choice["function"]["name"].as_str() else {
        let message = "tool_choice must be \"none\", \"auto\", \"required\" or a function's name";
        return Err(bad_choice(message));
    };
    match tools.iter().any(|tool| name_of(tool) == name) {
        true => Ok(name.to_owned()),
        false => Err(bad_choice(format!("tool_choice names {name:?}, which is not in tools"))),
    }
}

fn name_of(tool: &Value) -> &str {
    tool["function"]["name"].as_str().unwrap_or_default()
}

fn bad_choice(message: impl Into<String>) -> ApiError {
    ApiError::invalid("tool_choice", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::taken;

    impl ToolOffer {
        #[track_caller]
        pub fn check_is(&self, must_call: bool, functions: &[&str], is_parallel: bool) {
            let names: Vec<_> = self.functions().into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, functions);
            assert_eq!((self.must_call(), self.is_parallel()), (must_call, is_parallel));
        }
    }

    fn take(body: &Value) -> ApiResult<Option<ToolOffer>> {
        taken(body, ToolOffer::take)
    }

    fn two() -> Value {
        json!([
            {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
            {"type": "function", "function": {"name": "g"}},
        ])
    }

    #[track_caller]
    fn check(choice: Value, must_call: bool, want: &[&str], is_parallel: bool) {
        let offer = take(&json!({"tools": two(), "tool_choice": choice})).unwrap().unwrap();
        offer.check_is(must_call, want, is_parallel);
    }

    #[track_caller]
    fn check_refused(body: Value, param: &str, want: &str) {
        take(&body).unwrap_err().check_says(param, want);
    }

    #[test]
    fn a_call_is_free_or_demanded() {
        check(Value::Null, false, &["f", "g"], true);
        check(json!("auto"), false, &["f", "g"], true);
        check(json!("required"), true, &["f", "g"], true);
        check(json!({"type": "function", "function": {"name": "g"}}), true, &["g"], false);
        assert_eq!(take(&json!({"tools": two(), "tool_choice": "none"})), Ok(None));
        assert_eq!(take(&json!({"tools": []})), Ok(None));
        assert_eq!(take(&json!({"tool_choice": "auto"})), Ok(None));
    }

    #[test]
    fn strict_functions_are_closed() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "object"}}});
        let function = |strict: bool| {
            json!({"type": "function",
            "function": {"name": "f", "strict": strict, "parameters": schema}})
        };
        let schema_of = |strict| {
            let offer = take(&json!({"tools": [function(strict)]})).unwrap().unwrap();
            offer.functions()[0].1.clone()
        };
        assert_eq!(schema_of(false), schema);
        let closed = schema_of(true);
        assert_eq!(closed["additionalProperties"], json!(false));
        assert_eq!(closed["properties"]["a"]["additionalProperties"], json!(false));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        check_refused(json!({"tools": [{"type": "x"}]}), "tools", "tools[0].type");
        let nameless = json!({"type": "function", "function": {"name": "a b"}});
        check_refused(json!({"tools": [nameless]}), "tools", "tools[0].function.name");
        let twice = json!([two()[0], two()[0]]);
        check_refused(json!({"tools": twice}), "tools", "as another's");
        let list = json!({"type": "function", "function": {"name": "f", "parameters": []}});
        check_refused(json!({"tools": [list]}), "tools", "must be a JSON schema");
        check_refused(json!({"tool_choice": "required"}), "tool_choice", "no tools");
        check_refused(json!({"tools": two(), "tool_choice": "all"}), "tool_choice", "\"all\"");
        let other = json!({"type": "function", "function": {"name": "h"}});
        check_refused(json!({"tools": two(), "tool_choice": other}), "tool_choice", "\"h\"");
    }
}
