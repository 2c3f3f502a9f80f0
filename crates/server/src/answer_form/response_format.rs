//! `response_format`: OpenAI's types, and those of llama.cpp, Together and TGI.

use serde_json::{Map, Value};
use terrace_engine::guidance::{Grammar, GrammarRule, close_objects};

use super::form_values::{
    finish, flag, grammar_rule, json_rule, must_be, regex_rule, take as take_from,
};
use super::grammar;
use crate::api_error::ApiError;
use crate::fields::Fields;

const FIELD: &str = "response_format";
/// A schema under OpenAI's name.
const NAMED: &str = "response_format.json_schema.schema";
/// The schema itself where its name and options should be.
const BARE: &str = "response_format.json_schema";
/// Keywords that show that an object is a schema.
const SCHEMA_KEYWORDS: [&str; 9] =
    ["type", "properties", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "items"];

pub fn take(fields: &mut Fields) -> Result<Option<Grammar>, ApiError> {
    let mut format = match fields.take_value(FIELD) {
        None => return Ok(None),
        Some(Value::Object(format)) => format,
        // A type alone, as some clients write it.
        Some(Value::String(kind)) => Map::from_iter([("type".to_owned(), Value::String(kind))]),
        Some(other) => return must_be(FIELD, "an object with a type", &other),
    };
    let kind = match take_from(&mut format, "type") {
        Some(Value::String(kind)) => kind,
        Some(other) => return must_be("response_format.type", "a string", &other),
        None if format.contains_key("json_schema") || format.contains_key("schema") => {
            "json_schema".to_owned()
        }
        None => {
            let path = "response_format.type";
            return Err(ApiError::invalid(path, format!("{path} is missing; {KNOWN}")));
        }
    };
    let taken = match kind.as_str() {
        "text" => None,
        "json_object" | "json" => Some(match take_schema(&mut format)? {
            Some(grammar) => grammar,
            None => Grammar { option: FIELD, rule: GrammarRule::json_object() },
        }),
        "json_schema" => Some(take_schema(&mut format)?.ok_or_else(missing_schema)?),
        "regex" => Some(take_text(&mut format, REGEX_NAMES, regex_rule)?),
        "grammar" => Some(take_text(&mut format, GRAMMAR_NAMES, grammar_rule)?),
        other => {
            let message = format!("response_format.type is {other:?}; {KNOWN}");
            return Err(ApiError::invalid("response_format.type", message));
        }
    };
    finish(FIELD, &format)?;
    Ok(taken)
}

const KNOWN: &str = "known are text, json_object, json_schema, regex and grammar";
const REGEX_NAMES: [&str; 3] =
    ["response_format.regex", "response_format.pattern", "response_format.value"];
const GRAMMAR_NAMES: [&str; 2] = ["response_format.grammar", "response_format.value"];

fn missing_schema() -> ApiError {
    ApiError::invalid(NAMED, format!("{NAMED} is missing; it must be a JSON schema"))
}

/// The schema, wherever it stands, and whether it is strict.
fn take_schema(format: &mut Map<String, Value>) -> Result<Option<Grammar>, ApiError> {
    let mut found = Vec::new();
    let mut strict = take_from(format, "strict").map(|strict| ("response_format.strict", strict));
    // The name and description tell nothing about the form.
    for name in ["name", "description"] {
        take_from(format, name);
    }
    for (name, path) in [("schema", "response_format.schema"), ("value", "response_format.value")] {
        found.extend(take_from(format, name).map(|schema| (path, schema)));
    }
    match take_from(format, "json_schema") {
        None => {}
        Some(Value::Object(mut named)) if named.contains_key("schema") || !is_schema(&named) => {
            let schema = take_from(&mut named, "schema");
            let inner = take_from(&mut named, "strict");
            strict = strict.or(inner.map(|strict| ("response_format.json_schema.strict", strict)));
            for name in ["name", "description"] {
                take_from(&mut named, name);
            }
            finish(BARE, &named)?;
            found.push((NAMED, schema.ok_or_else(missing_schema)?));
        }
        Some(schema) => found.push((BARE, schema)),
    }
    let strict = strict.map(|(path, strict)| flag(path, &strict)).transpose()?.unwrap_or(false);
    match <[_; 1]>::try_from(found) {
        Ok([(path, schema)]) => Ok(grammar(path, schema_rule(path, schema, strict)?)),
        Err(found) => match found.as_slice() {
            [(first, _), (second, _), ..] => {
                let message = format!("{first} and {second} are both there; give one schema");
                Err(ApiError::invalid(second, message))
            }
            _ => Ok(None),
        },
    }
}

fn schema_rule(path: &str, schema: Value, strict: bool) -> Result<GrammarRule, ApiError> {
    let mut rule = json_rule(path, schema)?;
    if let GrammarRule::JsonSchema(schema) = &mut rule
        && strict
    {
        close_objects(schema);
    }
    Ok(rule)
}

fn is_schema(fields: &Map<String, Value>) -> bool {
    SCHEMA_KEYWORDS.iter().any(|keyword| fields.contains_key(*keyword))
}

/// The one value under any of the names.
fn take_text<const N: usize>(
    format: &mut Map<String, Value>,
    paths: [&'static str; N],
    rule: impl Fn(&str, Value) -> Result<GrammarRule, ApiError>,
) -> Result<Grammar, ApiError> {
    for path in paths {
        let name = path.rsplit('.').next().unwrap_or(path);
        if let Some(value) = take_from(format, name) {
            return Ok(Grammar { option: path, rule: rule(path, value)? });
        }
    }
    Err(ApiError::invalid(paths[0], format!("{} is missing", paths[0])))
}
