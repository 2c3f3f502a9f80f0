//! How a response has floats: as JSON numbers, or as the base64 of their bytes, as OpenAI's
//! embeddings have it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::api_error::{ApiError, ApiResult};
use crate::fields::Fields;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatEncoding {
    Float,
    Base64,
}

impl FloatEncoding {
    /// The request's `encoding_format`; numbers where it is left out.
    pub fn take(fields: &mut Fields) -> ApiResult<Self> {
        match fields.take::<String>("encoding_format")?.as_deref() {
            None | Some("float") => Ok(Self::Float),
            Some("base64") => Ok(Self::Base64),
            Some(other) => {
                let message = format!("encoding_format is {other:?}: give \"float\" or \"base64\"");
                Err(ApiError::invalid("encoding_format", message))
            }
        }
    }
}

/// Of the floats, each as its 4 bytes, the lowest first.
pub fn base64_of(floats: &[f32]) -> String {
    let bytes: Vec<u8> = floats.iter().flat_map(|value| value.to_le_bytes()).collect();
    BASE64_STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_has_the_bytes_of_the_numbers() {
        assert_eq!(base64_of(&[1.0, -2.0]), "AACAPwAAAMA=");
    }

    #[test]
    fn an_encoding_that_nobody_knows_is_refused() {
        let take = |body: &str| FloatEncoding::take(&mut Fields::parse(body.as_bytes())?);
        assert_eq!(take("{}"), Ok(FloatEncoding::Float));
        assert_eq!(take(r#"{"encoding_format": "base64"}"#), Ok(FloatEncoding::Base64));
        let error = take(r#"{"encoding_format": "hex"}"#).unwrap_err();
        error.check_says("encoding_format", "\"hex\"");
    }
}
