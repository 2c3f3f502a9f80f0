//! What is refused before it is compiled: grammars that are too long, and intersections of
//! expressions that could grow beyond any step's fuel.

use serde_json::Value;

use super::grammar::GrammarRule;
use super::intersections::check_intersections;
use super::json_schema::check_keywords;
use super::lark_text::{check_lark, schemas_in_lark};
use super::schema_walk::for_each_schema;

/// The time to compile an expression, and to find the tokens it allows, grows with the square of
/// its length: `a?` 2,000 times takes 0.2 s, 30,000 times a minute.
const MAX_REGEX_BYTES: usize = 4 << 10;
/// The same for a grammar whose words lead to one another.
const MAX_LARK_BYTES: usize = 16 << 10;
const MAX_JSON_BYTES: usize = 64 << 10;

/// Says what is wrong with a grammar that need not be compiled to know it.
pub(super) fn check(rule: &GrammarRule) -> Result<(), String> {
    match rule {
        GrammarRule::JsonSchema(schema) => check_schema(schema),
        GrammarRule::LarkWithJson { lark, schemas } => {
            check_lark_text(lark)?;
            schemas.iter().try_for_each(check_schema)
        }
        GrammarRule::Regex(regex) => check_bytes("the expression", regex.len(), MAX_REGEX_BYTES),
        GrammarRule::Lark(text) => check_lark_text(text),
        GrammarRule::Choice(texts) if texts.is_empty() => {
            Err("there is nothing to choose from; give at least one text".into())
        }
        GrammarRule::Choice(texts) => {
            check_bytes("the texts", texts.iter().map(String::len).sum(), MAX_JSON_BYTES)
        }
    }
}

fn check_lark_text(text: &str) -> Result<(), String> {
    check_bytes("the grammar", text.len(), MAX_LARK_BYTES)?;
    check_lark(text)?;
    schemas_in_lark(text).iter().try_for_each(check_schema)
}

fn check_schema(schema: &Value) -> Result<(), String> {
    check_bytes("the schema", schema.to_string().len(), MAX_JSON_BYTES)?;
    check_keywords(schema)?;
    check_expressions(schema)?;
    check_intersections(schema)
}

fn check_bytes(what: &str, bytes: usize, limit: usize) -> Result<(), String> {
    match bytes <= limit {
        true => Ok(()),
        false => Err(format!("{what} has {bytes} bytes, the limit is {limit}")),
    }
}

/// The expressions inside a schema, and the names of properties, which become expressions too.
fn check_expressions(schema: &Value) -> Result<(), String> {
    let mut checked = Ok(());
    for_each_schema(schema, &mut |_, fields| {
        let pattern = fields.get("pattern").and_then(Value::as_str);
        let names = ["properties", "patternProperties"].into_iter();
        let names = names.filter_map(|key| fields.get(key)?.as_object()).flat_map(|map| map.keys());
        let what = pattern.map(|pattern| ("a pattern", pattern)).into_iter();
        for (what, text) in what.chain(names.map(|name| ("a property's name", name.as_str()))) {
            if checked.is_ok() {
                checked = check_bytes(what, text.len(), MAX_REGEX_BYTES);
            }
        }
    });
    checked
}
