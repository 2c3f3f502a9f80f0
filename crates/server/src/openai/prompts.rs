//! Prompts in the four forms in which OpenAI's clients send them.

use serde_json::value::RawValue;
use terrace_engine::TokenId;
use terrace_engine::text::Prompt;

use crate::api_error::{ApiError, ApiResult};
use crate::fields::{Counts, FieldValue, Fields, Kind, items_of};

/// A text, a list of texts, a list of token ids, or a list of such lists; at most `limit` prompts.
pub fn take_prompts(fields: &mut Fields, name: &str, limit: usize) -> ApiResult<Vec<Prompt>> {
    let invalid = |rest: &str| ApiError::invalid(name, format!("{name} {rest}"));
    let forms = |_| invalid("must be a text or token ids, or a list of those");
    let Some(json) = fields.take_raw(name) else { return Err(invalid("is missing")) };
    match Kind::of(json.get()) {
        Kind::String => Ok(vec![Prompt::Text(String::read(&json, name)?)]),
        Kind::Array if Counts::of(json.get()).items == 0 => {
            Err(invalid("is an empty list; give at least one text or token id"))
        }
        Kind::Array if first_kind(&json) == Kind::Number => {
            let ids = Vec::<TokenId>::read(&json, name).map_err(forms)?;
            Ok(vec![Prompt::Tokens(ids)])
        }
        Kind::Array => items_of(&json, name, limit)?
            .into_iter()
            .map(|item| match Kind::of(item.get()) {
                Kind::String => String::read(item, name).map(Prompt::Text),
                _ => Vec::<TokenId>::read(item, name).map(Prompt::Tokens).map_err(forms),
            })
            .collect(),
        _ => Err(forms(invalid(""))),
    }
}

/// What the first item of a list is.
fn first_kind(list: &RawValue) -> Kind {
    Kind::of(list.get().trim_start().strip_prefix('[').unwrap_or_default())
}

#[cfg(test)]
mod tests {

    use super::*;

    fn take(body: &str) -> ApiResult<Vec<Prompt>> {
        take_prompts(&mut Fields::parse(body.as_bytes())?, "prompt", 8)
    }

    fn prompts(prompt: &str) -> Vec<Prompt> {
        take(&format!(r#"{{"prompt": {prompt}}}"#)).expect("a good prompt")
    }

    #[track_caller]
    fn check_refused(body: &str, want: &str) {
        assert_eq!(take(body).unwrap_err().message(), want);
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
