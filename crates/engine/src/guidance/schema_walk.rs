//! The schemas inside a JSON schema, wherever they stand.
//!
//! What is a value (`const`, `enum`, `default`, `examples`) is never taken for a schema. Keywords
//! that nobody knows may hold definitions that a `$ref` points to, so they are walked too.

use std::fmt;

use serde_json::{Map, Value};

/// Keywords whose value maps names to schemas.
const MAPS: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];
/// Keywords whose value is no schema and holds none.
const VALUES: [&str; 5] = ["const", "enum", "default", "examples", "x-guidance"];

/// Where a schema stands in its document.
#[derive(Clone, Debug, Default)]
pub(super) struct SchemaPath {
    steps: Vec<String>,
}

impl SchemaPath {
    /// As RFC 6901 writes it.
    pub fn pointer(&self) -> String {
        let escaped = |step: &String| format!("/{}", step.replace('~', "~0").replace('/', "~1"));
        self.steps.iter().map(escaped).collect()
    }
}

impl fmt::Display for SchemaPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("$")?;
        self.steps.iter().try_for_each(|step| write!(f, ".{step}"))
    }
}

/// Calls `visit` with the path and the fields of the schema and of each one inside it.
pub(super) fn for_each_schema<'a>(
    schema: &'a Value,
    visit: &mut impl FnMut(&SchemaPath, &'a Map<String, Value>),
) {
    walk(schema, &mut SchemaPath::default(), visit);
}

fn walk<'a>(
    schema: &'a Value,
    path: &mut SchemaPath,
    visit: &mut impl FnMut(&SchemaPath, &'a Map<String, Value>),
) {
    let depth = path.steps.len();
    let mut within = |steps: &[&str], schema: &'a Value, path: &mut SchemaPath| {
        path.steps.extend(steps.iter().map(|&step| step.to_owned()));
        walk(schema, path, visit);
        path.steps.truncate(depth);
    };
    match schema {
        Value::Array(schemas) => {
            for (index, schema) in schemas.iter().enumerate() {
                within(&[&index.to_string()], schema, path);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields.iter().filter(|(key, _)| !VALUES.contains(&key.as_str())) {
                match value {
                    Value::Object(map) if MAPS.contains(&key.as_str()) => {
                        for (name, schema) in map {
                            within(&[key, name], schema, path);
                        }
                    }
                    Value::Object(_) | Value::Array(_) => within(&[key], value, path),
                    _ => {}
                }
            }
            visit(path, fields);
        }
        _ => {}
    }
}

/// As `for_each_schema`, to change them; inner ones come first.
pub(super) fn change_each_schema(
    schema: &mut Value,
    visit: &mut impl FnMut(&mut Map<String, Value>),
) {
    match schema {
        Value::Array(schemas) => {
            schemas.iter_mut().for_each(|schema| change_each_schema(schema, visit));
        }
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut().filter(|(key, _)| !VALUES.contains(&key.as_str()))
            {
                match value {
                    Value::Object(map) if MAPS.contains(&key.as_str()) => {
                        map.values_mut().for_each(|schema| change_each_schema(schema, visit));
                    }
                    value => change_each_schema(value, visit),
                }
            }
            visit(fields);
        }
        _ => {}
    }
}

/// The schema that a `$ref` of the document points to, if it points into the document.
pub(super) fn resolve<'a>(document: &'a Value, reference: &str) -> Option<&'a Value> {
    document.pointer(reference.strip_prefix('#')?)
}
