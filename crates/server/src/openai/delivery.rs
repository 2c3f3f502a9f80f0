//! Whether the answer comes whole or piece by piece.

use serde_json::{Map, Value};

use crate::api_error::ApiError;
use crate::fields::Fields;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    Whole,
    Streamed { include_usage: bool },
}

impl Delivery {
    pub fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        let stream = fields.take::<bool>("stream")?.unwrap_or(false);
        let options = fields.take::<Map<String, Value>>("stream_options")?;
        match (stream, options) {
            (true, options) => streamed(options.unwrap_or_default()),
            (false, None) => Ok(Self::Whole),
            (false, Some(_)) => {
                let message = "stream_options needs \"stream\": true";
                Err(ApiError::invalid("stream_options", message))
            }
        }
    }
}

fn streamed(options: Map<String, Value>) -> Result<Delivery, ApiError> {
    let mut include_usage = false;
    for (name, value) in options {
        match (name.as_str(), value) {
            ("include_usage", Value::Bool(asked)) => include_usage = asked,
            (_, Value::Null | Value::Bool(false)) => {}
            (_, value) => {
                let message = format!("stream_options.{name} cannot be {value}");
                return Err(ApiError::invalid("stream_options", message));
            }
        }
    }
    Ok(Delivery::Streamed { include_usage })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(json: &str) -> Result<Delivery, ApiError> {
        Delivery::take(&mut Fields::parse(json.as_bytes())?)
    }

    #[test]
    fn usage_comes_only_when_asked() {
        assert_eq!(take("{}"), Ok(Delivery::Whole));
        let streamed = |include_usage| Ok(Delivery::Streamed { include_usage });
        assert_eq!(take(r#"{"stream": true}"#), streamed(false));
        let asked = r#"{"stream": true, "stream_options": {"include_usage": true}}"#;
        assert_eq!(take(asked), streamed(true));
    }

    #[test]
    fn options_without_a_stream_or_unknown_are_refused() {
        assert!(take(r#"{"stream_options": {"include_usage": true}}"#).is_err());
        assert!(take(r#"{"stream": true, "stream_options": {"pace": 1}}"#).is_err());
    }
}
