//! `thinking` and `output_config`: how much the model thinks, and what its output must look like.

use serde_json::{Map, Value};
use terrace_engine::guidance::{Grammar, GrammarRule};

use super::unknown_value;
use crate::api_error::ApiResult;
use crate::fields::Fields;

#[derive(Debug, PartialEq)]
pub struct OutputFields {
    /// Variables for the chat template.
    pub variables: Map<String, Value>,
    /// Whether the response has the text of the thinking.
    pub shows_thinking: bool,
    pub grammar: Option<Grammar>,
}

impl OutputFields {
    pub fn take(fields: &mut Fields) -> ApiResult<Self> {
        let variables = Map::new();
        let mut output = Self { variables, shows_thinking: true, grammar: None };
        if let Some(thinking) = fields.take_object("thinking")? {
            output.take_thinking(thinking)?;
        }
        if let Some(config) = fields.take_object("output_config")? {
            output.take_config(config)?;
        }
        Ok(output)
    }

    /// Chat templates have a switch for thinking, of two names, and some a budget. Whether the
    /// model keeps to it is its own affair; `max_tokens` counts thinking too.
    fn take_thinking(&mut self, mut fields: Fields) -> ApiResult<()> {
        let kind: String = fields.require("type")?;
        let thinks = match kind.as_str() {
            "adaptive" => true,
            "disabled" => false,
            "enabled" => {
                let budget: usize = fields.require("budget_tokens")?;
                self.variables.insert("thinking_budget".into(), budget.into());
                true
            }
            other => {
                let known = "\"adaptive\", \"enabled\" or \"disabled\"";
                return Err(unknown_value(&fields.path_of("type"), other, known));
            }
        };
        for name in ["enable_thinking", "thinking"] {
            self.variables.insert(name.into(), thinks.into());
        }
        match fields.take::<String>("display")?.as_deref() {
            // There is no shorter version to show, so all is shown.
            None | Some("summarized") => {}
            Some("omitted") => self.shows_thinking = false,
            Some(other) => {
                let known = "\"summarized\" or \"omitted\"";
                return Err(unknown_value(&fields.path_of("display"), other, known));
            }
        }
        fields.finish()
    }

    fn take_config(&mut self, mut fields: Fields) -> ApiResult<()> {
        const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];
        if let Some(effort) = fields.take::<String>("effort")? {
            if !EFFORTS.contains(&effort.as_str()) {
                let known = format!("one of {}", EFFORTS.join(", "));
                return Err(unknown_value(&fields.path_of("effort"), &effort, &known));
            }
            self.variables.insert("reasoning_effort".into(), effort.into());
        }
        if let Some(format) = fields.take_object("format")? {
            self.grammar = Some(take_format(format)?);
        }
        fields.finish()
    }
}

fn take_format(mut fields: Fields) -> ApiResult<Grammar> {
    let kind: String = fields.require("type")?;
    if kind != "json_schema" {
        return Err(unknown_value(&fields.path_of("type"), &kind, "\"json_schema\""));
    }
    let schema: Map<_, _> = fields.require("schema")?;
    fields.finish()?;
    Ok(Grammar { option: "output_config", rule: GrammarRule::JsonSchema(schema.into()) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    use crate::fields::tests::taken;

    fn take(body: &Value) -> ApiResult<OutputFields> {
        taken(body, OutputFields::take)
    }

    #[track_caller]
    fn check_variables(body: Value, want: Value) {
        assert_eq!(Value::from(take(&body).unwrap().variables), want, "{body}");
    }

    #[track_caller]
    fn check_refused(body: Value, want: &str) {
        assert_eq!(take(&body).unwrap_err().message(), want);
    }

    #[test]
    fn thinking_is_the_templates_affair() {
        check_variables(json!({}), json!({}));
        let on = json!({"enable_thinking": true, "thinking": true});
        check_variables(json!({"thinking": {"type": "adaptive"}}), on);
        let off = json!({"enable_thinking": false, "thinking": false});
        check_variables(json!({"thinking": {"type": "disabled"}}), off);
        let budget = json!({"thinking_budget": 2000, "enable_thinking": true, "thinking": true});
        check_variables(json!({"thinking": {"type": "enabled", "budget_tokens": 2000}}), budget);
        let effort = json!({"output_config": {"effort": "low"}});
        check_variables(effort, json!({"reasoning_effort": "low"}));
    }

    #[test]
    fn thinking_may_be_left_out_of_the_response() {
        let shows = |display: Value| {
            let thinking = json!({"type": "adaptive", "display": display});
            take(&json!({"thinking": thinking})).unwrap().shows_thinking
        };
        assert!(shows(Value::Null) && shows(json!("summarized")));
        assert!(!shows(json!("omitted")));
    }

    #[test]
    fn a_format_is_a_grammar() {
        let schema = json!({"type": "object"});
        let format = json!({"type": "json_schema", "schema": schema});
        let output = take(&json!({"output_config": {"format": format}})).unwrap();
        let rule = GrammarRule::JsonSchema(schema);
        assert_eq!(output.grammar, Some(Grammar { option: "output_config", rule }));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        check_refused(
            json!({"thinking": {"type": "enabled"}}),
            "thinking.budget_tokens is missing",
        );
        check_refused(
            json!({"thinking": {"type": "much"}}),
            "thinking.type is \"much\": it must be \"adaptive\", \"enabled\" or \"disabled\"",
        );
        check_refused(
            json!({"thinking": {"type": "disabled", "budget_tokens": 5}}),
            "unknown field \"thinking.budget_tokens\"",
        );
        check_refused(
            json!({"output_config": {"effort": "some"}}),
            "output_config.effort is \"some\": it must be one of low, medium, high, xhigh, max",
        );
        check_refused(
            json!({"output_config": {"format": {"type": "xml"}}}),
            "output_config.format.type is \"xml\": it must be \"json_schema\"",
        );
    }
}
