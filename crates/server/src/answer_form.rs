//! What an answer must look like: the fields that ask for JSON, an expression, a choice or a
//! grammar.
//!
//! OpenAI's `response_format`, and vLLM's `structured_outputs` with its older spelling `guided_*`.
//! A request may say it once, in one of these ways.

use serde_json::Value;
use terrace_engine::guidance::{Grammar, GrammarRule};

use crate::api_error::ApiError;
use crate::fields::{FieldValue, Fields};

pub fn take_grammar(fields: &mut Fields) -> Result<Option<Grammar>, ApiError> {
    let mut found: Option<Grammar> = None;
    let asked = [
        take_response_format(fields)?,
        take_structured_outputs(fields)?,
        take_json(fields, "guided_json")?,
        take_rule(fields, "guided_regex", GrammarRule::Regex)?,
        take_rule(fields, "guided_choice", GrammarRule::Choice)?,
        take_rule(fields, "guided_grammar", GrammarRule::Lark)?,
    ];
    for grammar in asked.into_iter().flatten() {
        if let Some(first) = &found {
            let (first, second) = (first.option, grammar.option);
            let message = format!("{first} and {second} both say what the answer must look like");
            return Err(ApiError::invalid(second, message));
        }
        found = Some(grammar);
    }
    Ok(found)
}

/// OpenAI's way.
fn take_response_format(fields: &mut Fields) -> Result<Option<Grammar>, ApiError> {
    const OPTION: &str = "response_format";
    let Some(mut format) = fields.take_object(OPTION)? else { return Ok(None) };
    let rule = match format.take::<String>("type")?.as_deref() {
        Some("text") => return Ok(None),
        Some("json_object") => GrammarRule::json_object(),
        // `strict` makes no difference: what can be promised is always kept.
        Some("json_schema") => {
            let named = format.take_object("json_schema")?;
            let schema = named.map(|mut named| named.take_value("schema")).transpose()?;
            schema.flatten().map_or_else(GrammarRule::json_object, GrammarRule::JsonSchema)
        }
        found => {
            let found = found.map_or("missing".to_owned(), |found| format!("{found:?}"));
            let message = format!(
                "response_format.type is {found}: it must be \"text\", \"json_object\" or \
                 \"json_schema\""
            );
            return Err(ApiError::invalid("response_format.type", message));
        }
    };
    Ok(Some(Grammar { option: OPTION, rule }))
}

/// vLLM's way: exactly one of these.
fn take_structured_outputs(fields: &mut Fields) -> Result<Option<Grammar>, ApiError> {
    const OPTION: &str = "structured_outputs";
    let Some(mut form) = fields.take_object(OPTION)? else { return Ok(None) };
    let json_object = form.take::<bool>("json_object")?.filter(|&wanted| wanted);
    let rules = [
        form.take_value("json")?.map(|schema| json_rule(OPTION, schema)).transpose()?,
        json_object.map(|_| GrammarRule::json_object()),
        form.take("regex")?.map(GrammarRule::Regex),
        form.take("choice")?.map(GrammarRule::Choice),
        form.take("grammar")?.map(GrammarRule::Lark),
    ];
    form.finish()?;
    let mut rules = rules.into_iter().flatten();
    match (rules.next(), rules.next()) {
        (Some(rule), None) => Ok(Some(Grammar { option: OPTION, rule })),
        _ => {
            let message = "structured_outputs must have one of json, json_object, regex, choice \
                           and grammar";
            Err(ApiError::invalid(OPTION, message))
        }
    }
}

fn take_json(fields: &mut Fields, option: &'static str) -> Result<Option<Grammar>, ApiError> {
    let Some(schema) = fields.take_value(option)? else { return Ok(None) };
    Ok(Some(Grammar { option, rule: json_rule(option, schema)? }))
}

/// A schema may also come as a text.
fn json_rule(option: &str, schema: Value) -> Result<GrammarRule, ApiError> {
    let Value::String(text) = schema else { return Ok(GrammarRule::JsonSchema(schema)) };
    serde_json::from_str(&text)
        .map(GrammarRule::JsonSchema)
        .map_err(|error| ApiError::invalid(option, format!("{option} is not valid JSON: {error}")))
}

fn take_rule<T: FieldValue>(
    fields: &mut Fields,
    option: &'static str,
    rule: impl FnOnce(T) -> GrammarRule,
) -> Result<Option<Grammar>, ApiError> {
    Ok(fields.take(option)?.map(|value| Grammar { option, rule: rule(value) }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn take(body: &Value) -> Result<Option<Grammar>, ApiError> {
        let mut fields = Fields::parse(body.to_string().as_bytes())?;
        let grammar = take_grammar(&mut fields)?;
        fields.finish()?;
        Ok(grammar)
    }

    #[track_caller]
    fn check(body: Value, option: &'static str, rule: GrammarRule) {
        assert_eq!(take(&body), Ok(Some(Grammar { option, rule })), "{body}");
    }

    #[track_caller]
    fn check_refused(body: Value, param: &str, want: &str) {
        let error: Value = serde_json::from_str(&take(&body).unwrap_err().to_json()).unwrap();
        assert_eq!(error["error"]["param"], param, "{body}");
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains(want), "{message}");
    }

    #[test]
    fn openai_asks_for_json() {
        let object = GrammarRule::json_object;
        check(json!({"response_format": {"type": "json_object"}}), "response_format", object());
        let schema = json!({"type": "array"});
        check(
            json!({"response_format": {"type": "json_schema", "json_schema":
                {"name": "list", "strict": true, "schema": schema}}}),
            "response_format",
            GrammarRule::JsonSchema(schema),
        );
        assert_eq!(take(&json!({"response_format": {"type": "text"}})), Ok(None));
        assert_eq!(take(&json!({})), Ok(None));
    }

    #[test]
    fn vllm_asks_in_two_spellings() {
        let schema = json!({"type": "array"});
        let texts = || vec!["a".to_owned(), "b".to_owned()];
        for (name, value, rule) in [
            ("json", schema.clone(), GrammarRule::JsonSchema(schema.clone())),
            ("json", json!(schema.to_string()), GrammarRule::JsonSchema(schema)),
            ("regex", json!("a+"), GrammarRule::Regex("a+".into())),
            ("choice", json!(texts()), GrammarRule::Choice(texts())),
            ("grammar", json!("start: \"a\""), GrammarRule::Lark("start: \"a\"".into())),
        ] {
            let (new, old) =
                (json!({"structured_outputs": {name: value}}), format!("guided_{name}"));
            check(new, "structured_outputs", rule.clone());
            let grammar = take(&json!({&old: value})).unwrap().unwrap();
            assert_eq!((grammar.option, grammar.rule), (old.as_str(), rule));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        check_refused(json!({"response_format": {"type": "xml"}}), "response_format.type", "xml");
        check_refused(json!({"guided_json": "{"}), "guided_json", "is not valid JSON");
        check_refused(
            json!({"structured_outputs": {"regex": "a", "choice": ["b"]}}),
            "structured_outputs",
            "must have one of",
        );
        check_refused(json!({"structured_outputs": {"xml": 1}}), "structured_outputs.xml", "xml");
        check_refused(
            json!({"response_format": {"type": "json_object"}, "guided_regex": "a"}),
            "guided_regex",
            "response_format and guided_regex both say",
        );
    }
}
