//! The field `text`: which format the output's text has.

use serde::Serialize;
use serde_json::{Map, Value};
use terrace_engine::guidance::{Grammar, GrammarRule, close_objects};
use utoipa::ToSchema;

use crate::api_error::{ApiError, ApiResult};
use crate::fields::Fields;

/// What complaints about the format name.
const OPTION: &str = "text.format";

/// Which format the output's text has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct TextConfig {
    pub format: TextFormat,
    /// Repeated, and otherwise ignored: how long an output is, is the model's own choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<String>,
}

/// Any text, any JSON object, or JSON that fits a schema.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TextFormat {
    #[default]
    Text,
    JsonObject,
    JsonSchema {
        /// The client's name for the schema.
        name: Option<String>,
        /// What the schema is for.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// The JSON schema.
        schema: Map<String, Value>,
        /// As the request said it.
        strict: Option<bool>,
    },
}

impl TextConfig {
    pub fn take(fields: &mut Fields) -> ApiResult<Self> {
        let Some(mut text) = fields.take_object("text")? else { return Ok(Self::default()) };
        let format = text.take_object("format")?.map(TextFormat::read).transpose()?;
        let verbosity: Option<String> = text.take("verbosity")?;
        if let Some(other) = &verbosity
            && !["low", "medium", "high"].contains(&other.as_str())
        {
            let message = format!("text.verbosity is {other:?}: it must be low, medium or high");
            return Err(ApiError::invalid("text.verbosity", message));
        }
        text.finish()?;
        Ok(Self { format: format.unwrap_or_default(), verbosity })
    }

    pub fn grammar(&self) -> Option<Grammar> {
        let rule = match &self.format {
            TextFormat::Text => return None,
            TextFormat::JsonObject => GrammarRule::json_object(),
            TextFormat::JsonSchema { schema, strict, .. } => {
                let mut schema = Value::Object(schema.clone());
                if *strict == Some(true) {
                    close_objects(&mut schema);
                }
                GrammarRule::JsonSchema(schema)
            }
        };
        Some(Grammar { option: OPTION, rule })
    }
}

impl TextFormat {
    fn read(mut format: Fields) -> ApiResult<Self> {
        let kind: Option<String> = format.take("type")?;
        let read = match kind.as_deref() {
            Some("text") => Self::Text,
            // Some clients put a schema here; its meaning is clear.
            Some("json_object") if format.kind_of("schema").is_some() => {
                Self::read_schema(&mut format)?
            }
            Some("json_object") => Self::JsonObject,
            Some("json_schema") => match format.take_object("json_schema")? {
                // As the chat route has it.
                Some(mut nested) => {
                    let schema = Self::read_schema(&mut nested)?;
                    nested.finish()?;
                    schema
                }
                None => Self::read_schema(&mut format)?,
            },
            Some(other) => {
                let path = format.path_of("type");
                let message =
                    format!("{path} is {other:?}: it must be text, json_object or json_schema");
                return Err(ApiError::invalid(&path, message));
            }
            None => return Err(ApiError::missing(&format.path_of("type"))),
        };
        format.finish()?;
        Ok(read)
    }

    fn read_schema(fields: &mut Fields) -> ApiResult<Self> {
        let Some(schema) = fields.take("schema")? else {
            let path = fields.path_of("schema");
            let message = format!("{path} is missing; for any JSON object, ask for json_object");
            return Err(ApiError::invalid(&path, message));
        };
        Ok(Self::JsonSchema {
            name: fields.take("name")?,
            description: fields.take("description")?,
            schema,
            strict: fields.take("strict")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn take(text: Value) -> ApiResult<TextConfig> {
        TextConfig::take(&mut Fields::parse(json!({"text": text}).to_string().as_bytes())?)
    }

    #[track_caller]
    fn check_refused(text: Value, param: &str, want: &str) {
        take(text).unwrap_err().check_says(param, want);
    }

    #[test]
    fn a_schema_becomes_a_grammar_wherever_it_stands() {
        let schema = json!({"type": "array"});
        let rule = GrammarRule::JsonSchema(schema.clone());
        for format in [
            json!({"type": "json_schema", "name": "n", "schema": schema, "strict": true}),
            json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}),
            json!({"type": "json_object", "schema": schema}),
        ] {
            let text = take(json!({"format": format})).unwrap();
            assert_eq!(text.grammar(), Some(Grammar { option: OPTION, rule: rule.clone() }));
        }
        let object = take(json!({"format": {"type": "json_object"}})).unwrap().grammar();
        assert_eq!(object.map(|grammar| grammar.rule), Some(GrammarRule::json_object()));
    }

    #[test]
    fn strict_closes_objects() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let rule = |strict: bool| {
            let format = json!({"type": "json_schema", "schema": schema, "strict": strict});
            take(json!({"format": format})).unwrap().grammar().unwrap().rule
        };
        assert_eq!(rule(false), GrammarRule::JsonSchema(schema.clone()));
        let GrammarRule::JsonSchema(closed) = rule(true) else { panic!("a schema") };
        assert_eq!(closed["additionalProperties"], json!(false));
    }

    #[test]
    fn plain_text_asks_for_nothing() {
        for text in [Value::Null, json!({}), json!({"format": {"type": "text"}})] {
            let text = take(text).unwrap();
            assert_eq!((text.grammar(), &text), (None, &TextConfig::default()));
        }
        let echo = serde_json::to_value(take(json!({"verbosity": "low"})).unwrap()).unwrap();
        assert_eq!(echo, json!({"format": {"type": "text"}, "verbosity": "low"}));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_path() {
        check_refused(json!({"format": {"type": "xml"}}), "text.format.type", "\"xml\"");
        check_refused(json!({"format": {}}), "text.format.type", "is missing");
        let no_schema = json!({"format": {"type": "json_schema", "name": "n"}});
        check_refused(no_schema, "text.format.schema", "is missing");
        let misspelt = json!({"format": {"type": "json_schema", "shema": {}, "schema": {}}});
        check_refused(misspelt, "text.format.shema", "unknown field");
        check_refused(json!({"verbosity": "loud"}), "text.verbosity", "\"loud\"");
        check_refused(json!({"style": "x"}), "text.style", "unknown field");
    }
}
