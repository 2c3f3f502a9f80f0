//! What an output must look like, as users say it.

use llguidance::api::TopLevelGrammar;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::json_schema::for_llguidance;
use super::one_of::overlapping_one_ofs;

#[derive(Clone, Debug, PartialEq)]
pub struct Grammar {
    /// Under which name the user gave it, for messages.
    pub option: &'static str,
    pub rule: GrammarRule,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

    /// What is taken otherwise than it is written, in words for whoever sent it.
    pub fn warnings(&self) -> Vec<String> {
        match self {
            GrammarRule::JsonSchema(schema) => overlapping_one_ofs(schema),
            GrammarRule::LarkWithJson { schemas, .. } => {
                schemas.iter().flat_map(overlapping_one_ofs).collect()
            }
            GrammarRule::Regex(_) | GrammarRule::Choice(_) | GrammarRule::Lark(_) => Vec::new(),
        }
    }

    pub(super) fn to_llguidance(&self) -> TopLevelGrammar {
        match self {
            GrammarRule::JsonSchema(schema) => {
                TopLevelGrammar::from_json_schema(for_llguidance(schema))
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
                    format!("json{index}: %json {}\n", for_llguidance(schema))
                };
                let rules: String = schemas.iter().enumerate().map(rule).collect();
                TopLevelGrammar::from_lark(format!("{lark}\n{rules}"))
            }
        }
    }
}
