//! `response_format`: OpenAI's types, and those of llama.cpp, Together and TGI.

use serde_json::Value;
use terrace_engine::guidance::{Grammar, GrammarRule};

use super::rules::{Take, schema_rule, take_grammar, take_regex};
use crate::api_error::{ApiError, ApiResult};
use crate::fields::{FieldValue, Fields, Kind};

const FIELD: &str = "response_format";
const TYPE: &str = "response_format.type";
const KNOWN: &str = "known are text, json_object, json_schema, regex and grammar";
/// A schema under OpenAI's name.
const NAMED: &str = "response_format.json_schema.schema";
/// The schema itself where its name and options should be.
const BARE: &str = "response_format.json_schema";
/// Where others put a schema, right inside the format.
const SCHEMA_NAMES: [(&str, &str); 2] =
    [("schema", "response_format.schema"), ("value", "response_format.value")];
/// Keywords that show that an object is a schema.
const SCHEMA_KEYWORDS: [&str; 9] =
    ["type", "properties", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "items"];
/// Where others put an expression or a grammar; the first is the name in complaints.
const REGEX_NAMES: [(&str, &str); 3] = [
    ("regex", "response_format.regex"),
    ("pattern", "response_format.pattern"),
    ("value", "response_format.value"),
];
const GRAMMAR_NAMES: [(&str, &str); 2] =
    [("grammar", "response_format.grammar"), ("value", "response_format.value")];

pub fn take(fields: &mut Fields) -> ApiResult<Option<Grammar>> {
    if fields.kind_of(FIELD) == Some(Kind::String) {
        let kind: Option<String> = fields.take(FIELD)?;
        return of_type(&kind.unwrap_or_default(), None);
    }
    let Some(mut format) = fields.take_object(FIELD)? else { return Ok(None) };
    let has_schema = ["json_schema", "schema"].iter().any(|name| format.kind_of(name).is_some());
    let grammar = match format.take::<String>("type")? {
        Some(kind) => of_type(&kind, Some(&mut format))?,
        None if has_schema => of_type("json_schema", Some(&mut format))?,
        None => return Err(ApiError::invalid(TYPE, format!("{TYPE} is missing; {KNOWN}"))),
    };
    format.finish()?;
    Ok(grammar)
}

/// The grammar of a type, with the fields that go with it; some clients write a type alone.
fn of_type(kind: &str, format: Option<&mut Fields>) -> ApiResult<Option<Grammar>> {
    let any_object = || Grammar { option: FIELD, rule: GrammarRule::json_object() };
    match (kind, format) {
        ("text", _) => Ok(None),
        ("json_object" | "json", None) => Ok(Some(any_object())),
        ("json_object" | "json", Some(format)) => {
            Ok(Some(take_schema(format)?.unwrap_or_else(any_object)))
        }
        ("json_schema", Some(format)) => take_schema(format)?.ok_or_else(no_schema).map(Some),
        ("json_schema", None) => Err(no_schema()),
        ("regex", format) => take_one(format, &REGEX_NAMES, take_regex).map(Some),
        ("grammar", format) => take_one(format, &GRAMMAR_NAMES, take_grammar).map(Some),
        (other, _) => Err(ApiError::invalid(TYPE, format!("{TYPE} is {other:?}; {KNOWN}"))),
    }
}

fn no_schema() -> ApiError {
    ApiError::invalid(NAMED, format!("{NAMED} is missing; it must be a JSON schema"))
}

struct FoundSchema {
    path: &'static str,
    schema: Value,
    is_strict: Option<bool>,
}

/// The schema, wherever it stands.
fn take_schema(format: &mut Fields) -> ApiResult<Option<Grammar>> {
    let is_strict = format.take::<bool>("strict")?;
    // The name and description do not change the grammar.
    format.ignore(&["name", "description"]);
    let mut found = Vec::new();
    for (name, path) in SCHEMA_NAMES {
        let schema = format.take_value(name)?;
        found.extend(schema.map(|schema| FoundSchema { path, schema, is_strict: None }));
    }
    found.extend(take_named(format)?);
    let found = match <[FoundSchema; 1]>::try_from(found) {
        Ok([found]) => found,
        Err(found) => match found.as_slice() {
            [first, second, ..] => {
                let (first, second) = (first.path, second.path);
                let message = format!("{first} and {second} are both there; give one schema");
                return Err(ApiError::invalid(second, message));
            }
            _ => return Ok(None),
        },
    };
    let is_strict = is_strict.or(found.is_strict).unwrap_or(false);
    let rule = schema_rule(found.path, found.schema, is_strict)?;
    Ok(Some(Grammar { option: found.path, rule }))
}

/// OpenAI's `json_schema`.
fn take_named(format: &mut Fields) -> ApiResult<Option<FoundSchema>> {
    let Some(json) = format.take_raw("json_schema") else { return Ok(None) };
    let is_object = Kind::of(json.get()) == Kind::Object;
    let named = is_object.then(|| format.nested(&json, BARE.to_owned())).transpose()?;
    let Some(mut named) = named.filter(|named| !is_schema(named)) else {
        let schema = Value::read(&json, BARE)?;
        return Ok(Some(FoundSchema { path: BARE, schema, is_strict: None }));
    };
    let schema = named.take_value("schema")?;
    let is_strict = named.take("strict")?;
    named.ignore(&["name", "description"]);
    named.finish()?;
    Ok(Some(FoundSchema { path: NAMED, schema: schema.ok_or_else(no_schema)?, is_strict }))
}

/// Some clients put the schema itself where its name and options should be.
fn is_schema(fields: &Fields) -> bool {
    let has = |name: &str| fields.kind_of(name).is_some();
    !has("schema") && SCHEMA_KEYWORDS.into_iter().any(has)
}

/// The one value under any of the names.
fn take_one(
    format: Option<&mut Fields>,
    names: &[(&str, &'static str)],
    take: Take,
) -> ApiResult<Grammar> {
    if let Some(format) = format {
        for (name, path) in names {
            if let Some(grammar) = take(format, name, path)? {
                return Ok(grammar);
            }
        }
    }
    Err(ApiError::missing(names[0].1))
}
