//! `keep_alive`: how long a model shall stay loaded.

use crate::api_error::{ApiError, ApiResult};
use crate::fields::{Fields, Kind, wrong_type};

/// What an empty request asks for: that the model be loaded, or unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    Loaded,
    Unloaded,
}

impl KeepAlive {
    /// How long the model shall stay after the response, as a number of seconds or as `"5m"`.
    /// Models stay for as long as the server runs, so only zero makes a difference.
    pub fn take(fields: &mut Fields) -> ApiResult<Self> {
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
    pub fn check(self) -> ApiResult<()> {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fields::tests::fields;

    #[test]
    fn zero_is_written_in_several_ways() {
        let stay = |value: Value| KeepAlive::take(&mut fields(json!({ "keep_alive": value })));
        for zero in [json!(0), json!("0"), json!("0s"), json!("0m")] {
            assert_eq!(stay(zero), Ok(KeepAlive::Unloaded));
        }
        for more in [json!(300), json!(-1), json!("5m"), json!("1h10m"), json!("-1"), Value::Null] {
            assert_eq!(stay(more), Ok(KeepAlive::Loaded));
        }
        assert!(stay(json!([])).is_err());
    }
}
