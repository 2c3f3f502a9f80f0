//! Prompts in the four forms in which OpenAI's clients send them.

use serde_json::Value;
use terrace_engine::TokenId;
use terrace_engine::text::Prompt;

use crate::api_error::ApiError;
use crate::fields::Fields;

/// A text, a list of texts, a list of token ids, or a list of such lists.
pub fn take_prompts(fields: &mut Fields, name: &str) -> Result<Vec<Prompt>, ApiError> {
    let invalid = |rest: &str| Err(ApiError::invalid(name, format!("{name} {rest}")));
    let items = match fields.take_value(name) {
        None => return invalid("is missing"),
        Some(Value::String(text)) => return Ok(vec![Prompt::Text(text)]),
        Some(Value::Array(items)) if items.is_empty() => {
            return invalid("is an empty list; give at least one text or token id");
        }
        Some(Value::Array(items)) => items,
        Some(_) => return invalid("must be a text or token ids, or a list of those"),
    };
    if let Some(ids) = token_ids(&items) {
        return Ok(vec![Prompt::Tokens(ids)]);
    }
    let prompts = items.into_iter().map(|item| match item {
        Value::String(text) => Some(Prompt::Text(text)),
        Value::Array(ids) => token_ids(&ids).map(Prompt::Tokens),
        _ => None,
    });
    match prompts.collect() {
        Some(prompts) => Ok(prompts),
        None => invalid("must be a text or token ids, or a list of those"),
    }
}

fn token_ids(items: &[Value]) -> Option<Vec<TokenId>> {
    items.iter().map(|item| item.as_u64().and_then(|id| TokenId::try_from(id).ok())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(body: &str) -> Result<Vec<Prompt>, ApiError> {
        take_prompts(&mut Fields::parse(body.as_bytes())?, "prompt")
    }

    fn prompts(prompt: &str) -> Vec<Prompt> {
        take(&format!(r#"{{"prompt": {prompt}}}"#)).expect("a good prompt")
    }

    #[track_caller]
    fn check_refused(body: &str, want: &str) {
        let error: Value = serde_json::from_str(&take(body).unwrap_err().to_json()).unwrap();
        assert_eq!(error["error"]["message"], want);
    }

    #[test]
    fn prompts_come_in_four_forms() {
        let text = |text: &str| Prompt::Text(text.to_owned());
        assert_eq!(prompts(r#""a""#), [text("a")]);
        assert_eq!(prompts(r#"["a", "b"]"#), [text("a"), text("b")]);
        assert_eq!(prompts("[1, 2]"), [Prompt::Tokens(vec![1, 2])]);
        assert_eq!(prompts("[[1], [2, 3]]"), [Prompt::Tokens(vec![1]), Prompt::Tokens(vec![2, 3])]);
    }

    #[test]
    fn other_prompts_are_refused() {
        let forms = "prompt must be a text or token ids, or a list of those";
        check_refused("{}", "prompt is missing");
        check_refused(r#"{"prompt": 3}"#, forms);
        check_refused(r#"{"prompt": [1, "a"]}"#, forms);
        check_refused(r#"{"prompt": [-1]}"#, forms);
        check_refused(r#"{"prompt": [4294967296]}"#, forms);
        check_refused(
            r#"{"prompt": []}"#,
            "prompt is an empty list; give at least one text or token id",
        );
    }
}
