//! What an answer must look like, as users say it.

use llguidance::api::TopLevelGrammar;
use serde_json::{Value, json};

/// Blanks between the parts of a JSON text. A model that may write any number of them sometimes
/// writes nothing else, to the end of its room; this leaves enough for indented lines.
const JSON_BLANKS: &str = r"[ \n\t]{0,20}";

/// The time to compile an expression, and to find the tokens it allows, grows with the square of
/// its length: `a?` 2,000 times takes 0.2 s, 30,000 times a minute.
const MAX_REGEX_BYTES: usize = 4 << 10;
/// The same for a grammar whose words lead to one another.
const MAX_LARK_BYTES: usize = 16 << 10;
const MAX_JSON_BYTES: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq)]
pub struct Grammar {
    /// Under which name the user gave it, for messages.
    pub option: &'static str,
    pub rule: GrammarRule,
}

#[derive(Clone, Debug, PartialEq)]
pub enum GrammarRule {
    /// A JSON text that fits the schema.
    JsonSchema(Value),
    /// A text that the expression matches as a whole.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// A grammar in `llguidance`'s dialect of Lark.
    Lark(String),
    /// The same; its rules `json0`, `json1` and so on are JSON texts that fit the schemas.
    LarkWithJson { lark: String, schemas: Vec<Value> },
}

impl GrammarRule {
    /// Any JSON object.
    pub fn json_object() -> Self {
        GrammarRule::JsonSchema(json!({"type": "object"}))
    }

    /// Says what is too large to be compiled in bounded time.
    pub(super) fn check_size(&self) -> Result<(), String> {
        match self {
            GrammarRule::JsonSchema(schema) => check_schema(schema),
            GrammarRule::LarkWithJson { lark, schemas } => {
                check_bytes("the grammar", lark.len(), MAX_LARK_BYTES)?;
                schemas.iter().try_for_each(check_schema)
            }
            GrammarRule::Regex(regex) => {
                check_bytes("the expression", regex.len(), MAX_REGEX_BYTES)
            }
            GrammarRule::Lark(text) => check_bytes("the grammar", text.len(), MAX_LARK_BYTES),
            GrammarRule::Choice(texts) if texts.is_empty() => {
                Err("there is nothing to choose from; give at least one text".into())
            }
            GrammarRule::Choice(texts) => {
                check_bytes("the texts", texts.iter().map(String::len).sum(), MAX_JSON_BYTES)
            }
        }
    }

    pub(super) fn to_llguidance(&self) -> TopLevelGrammar {
        match self {
            GrammarRule::JsonSchema(schema) => {
                TopLevelGrammar::from_json_schema(json_with_style(schema.clone()))
            }
            GrammarRule::Regex(regex) => TopLevelGrammar::from_regex(regex),
            GrammarRule::Choice(texts) => {
                let quoted: Vec<_> = texts.iter().map(|text| json!(text).to_string()).collect();
                // One word with many forms: many words would be tried one by one at each token.
                let lark = format!("start: CHOICE\nCHOICE: {}", quoted.join(" | "));
                TopLevelGrammar::from_lark(lark)
            }
            GrammarRule::Lark(text) => TopLevelGrammar::from_lark(text.clone()),
            GrammarRule::LarkWithJson { lark, schemas } => {
                let rule = |(index, schema): (usize, &Value)| {
                    format!("json{index}: %json {}\n", json_with_style(schema.clone()))
                };
                let rules: String = schemas.iter().enumerate().map(rule).collect();
                TopLevelGrammar::from_lark(format!("{lark}\n{rules}"))
            }
        }
    }
}

/// The schema, and how a JSON text looks outside its values.
fn json_with_style(mut schema: Value) -> Value {
    if let Value::Object(fields) = &mut schema
        && !fields.contains_key("x-guidance")
    {
        fields.insert("x-guidance".into(), json!({"whitespace_pattern": JSON_BLANKS}));
    }
    schema
}

fn check_schema(schema: &Value) -> Result<(), String> {
    check_bytes("the schema", schema.to_string().len(), MAX_JSON_BYTES)?;
    check_patterns(schema)
}

fn check_bytes(what: &str, bytes: usize, limit: usize) -> Result<(), String> {
    match bytes <= limit {
        true => Ok(()),
        false => Err(format!("{what} has {bytes} bytes, the limit is {limit}")),
    }
}

/// The expressions inside a schema, wherever they are.
fn check_patterns(schema: &Value) -> Result<(), String> {
    match schema {
        Value::Array(items) => items.iter().try_for_each(check_patterns),
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| match value {
            Value::String(text) if name == "pattern" => {
                check_bytes("a pattern", text.len(), MAX_REGEX_BYTES)
            }
            _ => {
                check_bytes("a property's name", name.len(), MAX_REGEX_BYTES)?;
                check_patterns(value)
            }
        }),
        _ => Ok(()),
    }
}
