//! What an event of a streamed `/v1/completions` says.

use anyhow::{Context, Result, bail};
use serde::Deserialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionEvent {
    /// New text: of one token, or of several that make a character together.
    Text,
    /// Nothing to read: why an output ended.
    Empty,
    /// Tokens of all outputs, reported before the end.
    Usage {
        completion_tokens: usize,
    },
    Done,
}

impl CompletionEvent {
    /// An event that tells of an error is one.
    pub fn parse(data: &str) -> Result<Self> {
        if data == "[DONE]" {
            return Ok(CompletionEvent::Done);
        }
        let chunk: Chunk =
            serde_json::from_str(data).with_context(|| format!("no completion's event: {data}"))?;
        if let Some(error) = chunk.error {
            bail!("the server broke off: {}", error.message);
        }
        if let Some(Usage { completion_tokens }) = chunk.usage {
            return Ok(CompletionEvent::Usage { completion_tokens });
        }
        let has_text = chunk.choices.iter().any(|choice| !choice.text.is_empty());
        Ok(if has_text { CompletionEvent::Text } else { CompletionEvent::Empty })
    }
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    error: Option<ErrorShape>,
}

#[derive(Deserialize)]
struct Choice {
    text: String,
}

#[derive(Deserialize)]
struct Usage {
    completion_tokens: usize,
}

#[derive(Deserialize)]
struct ErrorShape {
    message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(data: &str, want: CompletionEvent) {
        assert_eq!(CompletionEvent::parse(data).expect("an event"), want);
    }

    #[test]
    fn events_are_distinguished() {
        check("[DONE]", CompletionEvent::Done);
        check(r#"{"choices": [{"text": " a", "index": 0}], "usage": null}"#, CompletionEvent::Text);
        let finish = r#"{"choices": [{"text": "", "finish_reason": "length"}]}"#;
        check(finish, CompletionEvent::Empty);
        let usage = r#"{"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 7}}"#;
        check(usage, CompletionEvent::Usage { completion_tokens: 7 });
    }

    #[test]
    fn errors_are_errors() {
        let error = CompletionEvent::parse(r#"{"error": {"message": "too late"}}"#).unwrap_err();
        assert_eq!(error.to_string(), "the server broke off: too late");
        assert!(CompletionEvent::parse("not JSON").is_err());
    }
}
