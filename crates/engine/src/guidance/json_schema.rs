//! JSON schemas as they come, made into what the compiler takes.

use serde_json::{Value, json};

use super::schema_walk::{change_each_schema, for_each_schema};

/// Blanks between the parts of a JSON text. A model that may write any number of them sometimes
/// writes nothing else, to the end of its room; this leaves enough for indented lines.
const JSON_BLANKS: &str = r"[ \n\t]{0,20}";

/// The values of `format` that texts are held to; with all others any text fits.
pub const CHECKED_FORMATS: [&str; 10] =
    ["date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"];

/// Keywords that constrain and that the compiler does not know.
const UNSUPPORTED: [&str; 15] = [
    "not",
    "if",
    "then",
    "else",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "propertyNames",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$dynamicRef",
];

/// Closes every object that does not say whether it may have other properties, as OpenAI's
/// `strict` asks. Objects that an `allOf` puts together stay open: closed ones would exclude each
/// other's properties.
pub fn close_objects(schema: &mut Value) {
    for reference in open_parts(schema) {
        if let Some(Value::Object(part)) = schema.pointer_mut(&reference) {
            part.entry("additionalProperties").or_insert(Value::Bool(true));
        }
    }
    change_each_schema(schema, &mut |fields| {
        let is_object = match fields.get("type") {
            Some(Value::String(kind)) => kind == "object",
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
            _ => fields.contains_key("properties"),
        };
        if is_object && !fields.contains_key("additionalProperties") {
            fields.insert("additionalProperties".into(), Value::Bool(false));
        }
    });
}

/// Pointers to the schemas that have an `allOf`, to its parts, and to what those refer to.
fn open_parts(schema: &Value) -> Vec<String> {
    let mut parts = Vec::new();
    for_each_schema(schema, &mut |path, fields| {
        let Some(members) = fields.get("allOf").and_then(Value::as_array) else { return };
        let whole = path.pointer();
        for (index, member) in members.iter().enumerate() {
            parts.push(format!("{whole}/allOf/{index}"));
            let reference = member.get("$ref").and_then(Value::as_str);
            parts.extend(
                reference.and_then(|reference| reference.strip_prefix('#')).map(str::to_owned),
            );
        }
        parts.push(whole);
    });
    parts
}

/// The schema for the compiler: how a JSON text looks outside its values, formats that nobody
/// checks left out, and `oneOf` taken as `anyOf` where its options overlap.
pub(super) fn for_llguidance(schema: &Value) -> Value {
    let mut schema = schema.clone();
    change_each_schema(&mut schema, &mut |fields| {
        let is_checked = |format: &str| CHECKED_FORMATS.contains(&format);
        if fields.get("format").and_then(Value::as_str).is_some_and(|format| !is_checked(format)) {
            fields.shift_remove("format");
        }
        for keyword in UNSUPPORTED {
            if fields.get(keyword).is_some_and(|value| !asks(keyword, value)) {
                fields.shift_remove(keyword);
            }
        }
    });
    if let Value::Object(fields) = &mut schema {
        let style = fields.entry("x-guidance").or_insert_with(|| json!({}));
        if let Value::Object(style) = style {
            let is_styled = ["whitespace_pattern", "whitespace_flexible"];
            if !is_styled.iter().any(|key| style.contains_key(*key)) {
                style.insert("whitespace_pattern".into(), json!(JSON_BLANKS));
            }
            style.entry("coerce_one_of").or_insert(Value::Bool(true));
        }
    }
    schema
}

/// Refuses keywords that would be dropped.
pub(super) fn check_keywords(schema: &Value) -> Result<(), String> {
    let mut checked = Ok(());
    for_each_schema(schema, &mut |path, fields| {
        let is_there =
            |keyword: &&str| fields.get(*keyword).is_some_and(|value| asks(keyword, value));
        if let (Ok(()), Some(keyword)) = (&checked, UNSUPPORTED.into_iter().find(is_there)) {
            checked = Err(format!("the schema's keyword {keyword:?} at {path} is not supported"));
        }
    });
    checked
}

/// Whether the keyword with this value constrains anything.
fn asks(keyword: &str, value: &Value) -> bool {
    match keyword {
        "uniqueItems" => value == &Value::Bool(true),
        "unevaluatedItems" | "unevaluatedProperties" => value != &Value::Bool(true),
        _ => !value.is_null(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_closes_what_does_not_say() {
        let mut schema = json!({
            "type": "object",
            "properties": {
                "a": {"properties": {"properties": {"type": ["null", "object"]}}},
                "b": {"type": "object", "additionalProperties": true},
                "c": {"type": "array", "items": {"$ref": "#/$defs/d"}},
                "e": {"const": {"type": "object"}},
            },
            "$defs": {"d": {"type": "object"}},
        });
        close_objects(&mut schema);
        let closed = |schema: &Value| schema["additionalProperties"] == json!(false);
        let inner = &schema["properties"]["a"];
        assert!(closed(&schema) && closed(inner) && closed(&inner["properties"]["properties"]));
        assert!(closed(&schema["$defs"]["d"]));
        assert_eq!(schema["properties"]["b"]["additionalProperties"], json!(true));
        assert_eq!(schema["properties"]["e"], json!({"const": {"type": "object"}}));
    }

    #[test]
    fn strict_leaves_what_all_of_puts_together() {
        let mut schema = json!({
            "allOf": [{"$ref": "#/$defs/base"}, {"properties": {"b": {"type": "object"}}}],
            "$defs": {
                "base": {"type": "object", "properties": {"a": {}}},
                "other": {"type": "object"},
            },
        });
        close_objects(&mut schema);
        assert_eq!(schema["$defs"]["base"]["additionalProperties"], json!(true));
        assert_eq!(schema["allOf"][1]["additionalProperties"], json!(true));
        assert_eq!(schema["allOf"][1]["properties"]["b"]["additionalProperties"], json!(false));
        assert_eq!(schema["$defs"]["other"]["additionalProperties"], json!(false));
    }

    #[test]
    fn formats_that_nobody_checks_are_left_out() {
        let schema = json!({"properties": {
            "format": {"type": "string", "format": "color"},
            "when": {"type": "string", "format": "date"},
        }});
        let made = for_llguidance(&schema);
        assert_eq!(made["properties"]["format"], json!({"type": "string"}));
        assert_eq!(made["properties"]["when"], schema["properties"]["when"]);
    }

    #[test]
    fn keywords_that_would_be_dropped_are_named() {
        let error = check_keywords(&json!({"items": {"not": {}}})).expect_err("a keyword");
        assert_eq!(error, "the schema's keyword \"not\" at $.items is not supported");
        assert!(check_keywords(&json!({"uniqueItems": true})).is_err());
        let harmless = json!({"uniqueItems": false, "properties": {"not": {"type": "null"}}});
        assert_eq!(check_keywords(&harmless), Ok(()));
        assert_eq!(for_llguidance(&harmless).get("uniqueItems"), None);
    }
}
