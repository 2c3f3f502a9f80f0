//! Fields that `/api/chat` and `/api/generate` have in common: format, thinking, stream,
//! keep-alive.

use serde_json::Value;
use terrace_engine::guidance::{Grammar, GrammarRule};
use terrace_model::RenderOptions;

use crate::api_error::ApiError;
use crate::fields::{Fields, Kind, wrong_type};
use crate::language::ServedModel;

/// What the output must look like: `"json"`, or a JSON schema.
pub fn take_format(fields: &mut Fields) -> Result<Option<Grammar>, ApiError> {
    const OPTION: &str = "format";
    let rule = match fields.kind_of(OPTION) {
        Some(Kind::String) => match fields.take::<String>(OPTION)?.as_deref() {
            None | Some("") => return Ok(None),
            Some("json") => GrammarRule::json_object(),
            Some(other) => {
                let message = format!("format is {other:?}: it must be \"json\" or a JSON schema");
                return Err(ApiError::invalid(OPTION, message));
            }
        },
        _ => match fields.take::<serde_json::Map<String, Value>>(OPTION)? {
            None => return Ok(None),
            Some(schema) => GrammarRule::JsonSchema(Value::Object(schema)),
        },
    };
    Ok(Some(Grammar { option: OPTION, rule }))
}

/// Whether a thinking model shall think, and how much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Think {
    /// As the model's template has it.
    #[default]
    Unsaid,
    No,
    Yes,
    /// `low`, `medium` or `high`.
    Effort(String),
}

impl Think {
    pub fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        const LEVELS: [&str; 3] = ["low", "medium", "high"];
        let Some(json) = fields.take_raw("think") else { return Ok(Self::Unsaid) };
        match Kind::of(json.get()) {
            Kind::Bool => Ok(if json.get() == "true" { Self::Yes } else { Self::No }),
            Kind::String => match json.get().trim_matches('"') {
                level if LEVELS.contains(&level) => Ok(Self::Effort(level.to_owned())),
                _ => {
                    Err(wrong_type(&json, "think", "true, false, \"low\", \"medium\" or \"high\""))
                }
            },
            _ => Err(wrong_type(&json, "think", "true, false, \"low\", \"medium\" or \"high\"")),
        }
    }

    pub fn asks(&self) -> bool {
        matches!(self, Self::Yes | Self::Effort(_))
    }

    /// A model whose template does not think cannot be asked to.
    pub fn check(&self, model: &ServedModel) -> Result<(), ApiError> {
        if self.asks() && !model.thinks() {
            let message = format!(
                "think is not supported by {:?}: its chat template knows no reasoning",
                model.name()
            );
            return Err(ApiError::invalid("think", message));
        }
        Ok(())
    }

    /// Hands it to the template under the names that templates look for.
    pub fn apply(&self, render: &mut RenderOptions) {
        let thinks = match self {
            Self::Unsaid => return,
            Self::No => false,
            Self::Yes | Self::Effort(_) => true,
        };
        render.extra.insert("enable_thinking".to_owned(), thinks.into());
        if let Self::Effort(level) = self {
            render.extra.insert("reasoning_effort".to_owned(), level.as_str().into());
        }
    }
}

/// Whether the output is streamed; it is unless the request says otherwise.
pub fn take_stream(fields: &mut Fields) -> Result<bool, ApiError> {
    Ok(fields.take_flag("stream")?.unwrap_or(true))
}

/// What an empty request asks for: that the model be loaded, or unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    Loaded,
    Unloaded,
}

impl Stay {
    /// How long the model shall stay after the response, as a number of seconds or as `"5m"`.
    /// Models stay for as long as the server runs, so only zero makes a difference.
    pub fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        let Some(json) = fields.take_raw("keep_alive") else { return Ok(Self::Loaded) };
        let text = match Kind::of(json.get()) {
            Kind::Number | Kind::String => json.get().trim_matches('"'),
            _ => {
                return Err(wrong_type(&json, "keep_alive", "a number of seconds or a duration"));
            }
        };
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        Ok(if number.parse() == Ok(0.0) { Self::Unloaded } else { Self::Loaded })
    }

    /// For a request without a prompt.
    pub fn check(self) -> Result<(), ApiError> {
        match self {
            Self::Loaded => Ok(()),
            Self::Unloaded => {
                let message = "keep_alive is 0 and there is no prompt, which asks to \
                               unload the model; models stay loaded while this server runs";
                Err(ApiError::invalid("keep_alive", message))
            }
        }
    }
}

/// What Ollama does to a conversation that is too long, and this server does not.
pub fn refuse_shortening(fields: &mut Fields) -> Result<(), ApiError> {
    let reason = "a prompt that is longer than the context is refused, with the numbers";
    fields.refuse("truncate", reason)?;
    fields.refuse("shift", reason)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(body: Value) -> Fields {
        Fields::parse(body.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_format_is_json_or_a_schema() {
        let rule = |format: Value| {
            let grammar = take_format(&mut fields(json!({ "format": format })));
            grammar.map(|grammar| grammar.map(|grammar| (grammar.option, grammar.rule)))
        };
        assert_eq!(rule(json!("json")), Ok(Some(("format", GrammarRule::json_object()))));
        let schema = json!({"type": "array"});
        let want = GrammarRule::JsonSchema(schema.clone());
        assert_eq!(rule(schema), Ok(Some(("format", want))));
        assert_eq!(rule(json!("")), Ok(None));
        assert_eq!(rule(Value::Null), Ok(None));
        let error = rule(json!("xml")).unwrap_err();
        assert_eq!(error.message(), "format is \"xml\": it must be \"json\" or a JSON schema");
        let error = rule(json!(3)).unwrap_err();
        assert_eq!(error.message(), "format must be an object, not a number (3)");
    }

    #[test]
    fn thinking_goes_to_the_template() {
        let extra = |think: Value| {
            let mut render = RenderOptions::next_message();
            Think::take(&mut fields(json!({ "think": think }))).unwrap().apply(&mut render);
            Value::Object(render.extra)
        };
        assert_eq!(extra(Value::Null), json!({}));
        assert_eq!(extra(json!(false)), json!({"enable_thinking": false}));
        assert_eq!(extra(json!(true)), json!({"enable_thinking": true}));
        let low = json!({"enable_thinking": true, "reasoning_effort": "low"});
        assert_eq!(extra(json!("low")), low);
        let error = Think::take(&mut fields(json!({"think": "much"}))).unwrap_err();
        let want = "think must be true, false, \"low\", \"medium\" or \"high\", not a string \
                    (\"much\")";
        assert_eq!(error.message(), want);
    }

    #[test]
    fn zero_is_written_in_several_ways() {
        let stay = |value: Value| Stay::take(&mut fields(json!({ "keep_alive": value })));
        for zero in [json!(0), json!("0"), json!("0s"), json!("0m")] {
            assert_eq!(stay(zero), Ok(Stay::Unloaded));
        }
        for more in [json!(300), json!(-1), json!("5m"), json!("1h10m"), json!("-1"), Value::Null] {
            assert_eq!(stay(more), Ok(Stay::Loaded));
        }
        assert!(stay(json!([])).is_err());
    }
}
