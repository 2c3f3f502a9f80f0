//! `oneOf` whose options overlap: it is taken as `anyOf`, which whoever sent it should know.
//!
//! Options count as apart when that can be seen: other types, other constants, or objects that a
//! required property tells apart, as in discriminated unions.

use serde_json::{Map, Value};

use super::schema_walk::{for_each_schema, resolve};

/// References that are followed one after the other.
const MAX_REFS: usize = 16;
/// Each is compared with each other.
const MAX_OPTIONS: usize = 200;

/// One warning for each such `oneOf`.
pub(super) fn overlapping_one_ofs(schema: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for_each_schema(schema, &mut |path, fields| {
        let Some(options) = fields.get("oneOf").and_then(Value::as_array) else { return };
        let apart = |(index, option): (usize, &Value)| {
            options[..index].iter().all(|other| are_apart(schema, option, other))
        };
        if MAX_OPTIONS < options.len() || !options.iter().enumerate().all(apart) {
            warnings.push(format!(
                "oneOf at {path} is taken as anyOf: a value may fit several of its options"
            ));
        }
    });
    warnings
}

fn are_apart(document: &Value, a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (fields_of(document, a), fields_of(document, b)) else { return false };
    if let (Some(a), Some(b)) = (constants(a), constants(b)) {
        return a.iter().all(|value| !b.contains(value));
    }
    if let (Some(a), Some(b)) = (types(a), types(b))
        && !a.iter().any(|kind| b.contains(kind))
    {
        return true;
    }
    let requires = |fields: &Map<String, Value>, name: &String| {
        let required = fields.get("required").and_then(Value::as_array);
        required.is_some_and(|names| names.iter().any(|required| required == name))
    };
    let properties = |fields: &'_ Map<String, Value>| {
        fields.get("properties").and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let others = properties(b);
    properties(a).iter().any(|(name, schema)| {
        let other = others.get(name);
        (requires(a, name) || requires(b, name))
            && other.is_some_and(|other| are_constants_apart(document, schema, other))
    })
}

/// Of a property that tells two objects apart.
fn are_constants_apart(document: &Value, a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (fields_of(document, a), fields_of(document, b)) else { return false };
    match (constants(a), constants(b)) {
        (Some(a), Some(b)) => a.iter().all(|value| !b.contains(value)),
        _ => false,
    }
}

fn fields_of<'a>(document: &'a Value, mut schema: &'a Value) -> Option<&'a Map<String, Value>> {
    for _ in 0..MAX_REFS {
        match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => schema = resolve(document, reference)?,
            None => return schema.as_object(),
        }
    }
    None
}

fn constants(fields: &Map<String, Value>) -> Option<Vec<&Value>> {
    match fields.get("const") {
        Some(value) => Some(vec![value]),
        None => Some(fields.get("enum")?.as_array()?.iter().collect()),
    }
}

/// `integer` counts as `number`.
fn types(fields: &Map<String, Value>) -> Option<Vec<&str>> {
    let kinds = match (fields.get("type"), constants(fields)) {
        (Some(Value::String(kind)), _) => vec![kind.as_str()],
        (Some(Value::Array(kinds)), _) => kinds.iter().filter_map(Value::as_str).collect(),
        (None, Some(constants)) => constants.into_iter().map(type_of).collect(),
        _ => return None,
    };
    Some(kinds.into_iter().map(|kind| if kind == "integer" { "number" } else { kind }).collect())
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: Value, want: &[&str]) {
        let warnings = overlapping_one_ofs(&schema);
        assert_eq!(warnings.len(), want.len(), "{warnings:?}");
        for (warning, path) in warnings.iter().zip(want) {
            assert!(
                warning.starts_with(&format!("oneOf at {path} is taken as anyOf")),
                "{warning}"
            );
        }
    }

    #[test]
    fn options_that_overlap_are_named() {
        check(json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}), &["$"]);
        let open = json!({"oneOf": [{"type": "object"}, {"type": "object"}]});
        check(json!({"properties": {"a": open}}), &["$.properties.a"]);
        check(json!({"oneOf": [{"enum": [1, 2]}, {"const": 2}]}), &["$"]);
    }

    #[test]
    fn options_that_are_apart_are_not() {
        check(json!({"oneOf": [{"type": "string"}, {"type": ["null", "integer"]}]}), &[]);
        check(json!({"oneOf": [{"const": 1}, {"const": 2}, {"type": "string"}]}), &[]);
        let variant = |name: &str| {
            json!({"type": "object", "required": ["kind"],
            "properties": {"kind": {"const": name}, "size": {"type": "integer"}}})
        };
        check(
            json!({
                "oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
                "$defs": {"a": variant("a"), "b": variant("b")},
            }),
            &[],
        );
        check(json!({"const": {"oneOf": [1, 1]}}), &[]);
    }
}
