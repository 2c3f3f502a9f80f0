//! The values that forms are made of, read by hand so that each complaint says where and what.

use serde_json::{Map, Value};
use terrace_engine::guidance::{GrammarRule, gbnf_to_lark, is_gbnf};

use crate::api_error::ApiError;

/// A schema, which may also come as a text.
pub fn json_rule(path: &str, schema: Value) -> Result<GrammarRule, ApiError> {
    let schema = match schema {
        Value::String(text) => serde_json::from_str(&text).map_err(|error| {
            ApiError::invalid(path, format!("{path} is not valid JSON: {error}"))
        })?,
        schema => schema,
    };
    match schema {
        Value::Object(_) | Value::Bool(_) => Ok(GrammarRule::JsonSchema(schema)),
        other => must_be(path, "a JSON schema", &other),
    }
}

pub fn regex_rule(path: &str, value: Value) -> Result<GrammarRule, ApiError> {
    text(path, value).map(GrammarRule::Regex)
}

/// A grammar in Lark or in GBNF, whichever it is written in.
pub fn grammar_rule(path: &str, value: Value) -> Result<GrammarRule, ApiError> {
    let text = text(path, value)?;
    if !is_gbnf(&text) {
        return Ok(GrammarRule::Lark(text));
    }
    gbnf_to_lark(&text)
        .map(GrammarRule::Lark)
        .map_err(|problem| ApiError::invalid(path, format!("{path} is not valid GBNF: {problem}")))
}

pub fn choice_rule(path: &str, value: Value) -> Result<GrammarRule, ApiError> {
    let Value::Array(choices) = value else { return must_be(path, "a list of strings", &value) };
    let choices = choices.into_iter().enumerate();
    let choices = choices.map(|(index, choice)| text(&format!("{path}[{index}]"), choice));
    choices.collect::<Result<_, _>>().map(GrammarRule::Choice)
}

pub fn text(path: &str, value: Value) -> Result<String, ApiError> {
    match value {
        Value::String(text) => Ok(text),
        other => must_be(path, "a string", &other),
    }
}

pub fn flag(path: &str, value: &Value) -> Result<bool, ApiError> {
    match value {
        Value::Bool(flag) => Ok(*flag),
        other => must_be(path, "true or false", other),
    }
}

/// Refuses what is left of an object, unless it asks for nothing.
pub fn finish(path: &str, rest: &Map<String, Value>) -> Result<(), ApiError> {
    match rest.iter().find(|(_, value)| !matches!(value, Value::Null | Value::Bool(false))) {
        Some((name, _)) => {
            let path = format!("{path}.{name}");
            Err(ApiError::invalid(&path, format!("{path} is not known here")))
        }
        None => Ok(()),
    }
}

/// A field that is there; `null` is as good as absent.
pub fn take(fields: &mut Map<String, Value>, name: &str) -> Option<Value> {
    fields.shift_remove(name).filter(|value| !value.is_null())
}

pub fn must_be<T>(path: &str, what: &str, value: &Value) -> Result<T, ApiError> {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    Err(ApiError::invalid(path, format!("{path} must be {what}, not {kind}")))
}
