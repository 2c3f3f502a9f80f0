//! vLLM's way: `structured_outputs` with exactly one of its kinds, or a field for each kind.

use serde_json::Value;
use terrace_engine::guidance::{Grammar, GrammarRule};

use super::form_values::{
    choice_rule, finish, flag, grammar_rule, json_rule, must_be, regex_rule, take as take_from,
};
use super::grammar;
use crate::api_error::ApiError;
use crate::fields::Fields;

const FIELD: &str = "structured_outputs";

/// How a value becomes a rule; the path is for complaints.
type Reader = fn(&str, Value) -> Result<GrammarRule, ApiError>;

const KINDS: [(&str, &str, Reader); 5] = [
    ("json", "structured_outputs.json", json_rule),
    ("json_object", "structured_outputs.json_object", json_object),
    ("regex", "structured_outputs.regex", regex_rule),
    ("choice", "structured_outputs.choice", choice_rule),
    ("grammar", "structured_outputs.grammar", grammar_rule),
];

pub fn take(fields: &mut Fields) -> Result<Option<Grammar>, ApiError> {
    let mut asked = match fields.take_value(FIELD) {
        None => return Ok(None),
        Some(Value::Object(asked)) => asked,
        Some(other) => return must_be(FIELD, "an object", &other),
    };
    if asked.get("json_object") == Some(&Value::Bool(false)) {
        asked.shift_remove("json_object");
    }
    let mut found = Vec::new();
    for (name, path, rule) in KINDS {
        if let Some(value) = take_from(&mut asked, name) {
            found.push(Grammar { option: path, rule: rule(path, value)? });
        }
    }
    finish(FIELD, &asked)?;
    match found.len() {
        1 => Ok(found.pop()),
        _ => {
            let message = "structured_outputs must have one of json, json_object, regex, choice \
                           and grammar";
            Err(ApiError::invalid(FIELD, message))
        }
    }
}

pub fn take_guided(
    fields: &mut Fields,
    option: &'static str,
    rule: Reader,
) -> Result<Option<Grammar>, ApiError> {
    match fields.take_value(option) {
        Some(value) => Ok(grammar(option, rule(option, value)?)),
        None => Ok(None),
    }
}

fn json_object(path: &str, value: Value) -> Result<GrammarRule, ApiError> {
    flag(path, &value).map(|_| GrammarRule::json_object())
}
