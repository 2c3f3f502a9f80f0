//! The values that hold an output to a grammar, and the rules they are read as.

use serde_json::Value;
use terrace_engine::guidance::{Grammar, GrammarRule, close_objects, gbnf_to_lark, is_gbnf};

use crate::api_error::{ApiError, ApiResult};
use crate::fields::Fields;

/// Takes the field `name`, which stands at `path` in the request.
pub type Take = fn(&mut Fields, &str, &'static str) -> Taken;
pub type Taken = ApiResult<Option<Grammar>>;

pub fn take_json(fields: &mut Fields, name: &str, path: &'static str) -> Taken {
    let Some(schema) = fields.take_value(name)? else { return Ok(None) };
    Ok(Some(Grammar { option: path, rule: json_rule(path, schema)? }))
}

pub fn take_regex(fields: &mut Fields, name: &str, path: &'static str) -> Taken {
    let rule = fields.take(name)?.map(GrammarRule::Regex);
    Ok(rule.map(|rule| Grammar { option: path, rule }))
}

pub fn take_choice(fields: &mut Fields, name: &str, path: &'static str) -> Taken {
    let rule = fields.take(name)?.map(GrammarRule::Choice);
    Ok(rule.map(|rule| Grammar { option: path, rule }))
}

/// A grammar in Lark or in GBNF, whichever it is written in.
pub fn take_grammar(fields: &mut Fields, name: &str, path: &'static str) -> Taken {
    let Some(text) = fields.take::<String>(name)? else { return Ok(None) };
    let lark = match is_gbnf(&text) {
        false => text,
        true => gbnf_to_lark(&text).map_err(|problem| {
            ApiError::invalid(path, format!("{path} is not valid GBNF: {problem}"))
        })?,
    };
    Ok(Some(Grammar { option: path, rule: GrammarRule::Lark(lark) }))
}

/// A schema, which may also come as a text.
fn json_rule(path: &str, schema: Value) -> ApiResult<GrammarRule> {
    let schema = match schema {
        Value::String(text) => serde_json::from_str(&text).map_err(|error| {
            ApiError::invalid(path, format!("{path} is not valid JSON: {error}"))
        })?,
        schema => schema,
    };
    let kind = match schema {
        Value::Object(_) | Value::Bool(_) => return Ok(GrammarRule::JsonSchema(schema)),
        Value::Null => "null",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
    };
    Err(ApiError::invalid(path, format!("{path} must be a JSON schema, not {kind}")))
}

/// The same; a strict schema's objects are closed.
pub fn schema_rule(path: &str, schema: Value, is_strict: bool) -> ApiResult<GrammarRule> {
    let mut rule = json_rule(path, schema)?;
    if let GrammarRule::JsonSchema(schema) = &mut rule
        && is_strict
    {
        close_objects(schema);
    }
    Ok(rule)
}
