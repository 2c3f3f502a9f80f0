//! Whether the response comes whole or as a stream.

use crate::api_error::{ApiError, ApiResult};
use crate::fields::Fields;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    Whole,
    Streamed(StreamUsage),
}

/// When a stream says how many tokens there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamUsage {
    /// In a last chunk of its own.
    pub at_end: bool,
    /// In every chunk.
    pub in_chunks: bool,
}

impl Delivery {
    pub fn take(fields: &mut Fields) -> ApiResult<Self> {
        let stream = fields.take_flag("stream")?.unwrap_or(false);
        let options = fields.take_object("stream_options")?;
        match (stream, options) {
            (true, Some(options)) => StreamUsage::take(options).map(Self::Streamed),
            (true, None) => Ok(Self::Streamed(StreamUsage::default())),
            (false, None) => Ok(Self::Whole),
            (false, Some(_)) => {
                let message = "stream_options needs \"stream\": true";
                Err(ApiError::invalid("stream_options", message))
            }
        }
    }
}

impl StreamUsage {
    fn take(mut options: Fields) -> ApiResult<Self> {
        let at_end = options.take("include_usage")?.unwrap_or(false);
        let in_chunks = options.take("continuous_usage_stats")?.unwrap_or(false);
        // Pads chunks against eavesdroppers who count bytes; ours are not padded.
        options.refuse("include_obfuscation", "chunks are not padded")?;
        options.finish()?;
        // Without a last chunk nobody has requested usage at all.
        Ok(Self { at_end, in_chunks: in_chunks && at_end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(json: &str) -> ApiResult<Delivery> {
        Delivery::take(&mut Fields::parse(json.as_bytes())?)
    }

    #[test]
    fn usage_comes_only_when_requested() {
        assert_eq!(take("{}"), Ok(Delivery::Whole));
        let streamed = |at_end| Ok(Delivery::Streamed(StreamUsage { at_end, in_chunks: false }));
        assert_eq!(take(r#"{"stream": true}"#), streamed(false));
        let requested = r#"{"stream": true, "stream_options": {"include_usage": true}}"#;
        assert_eq!(take(requested), streamed(true));
        let everywhere = r#"{"stream": true, "stream_options":
            {"include_usage": true, "continuous_usage_stats": true}}"#;
        let all = StreamUsage { at_end: true, in_chunks: true };
        assert_eq!(take(everywhere), Ok(Delivery::Streamed(all)));
    }

    #[test]
    fn options_without_a_stream_or_unknown_are_refused() {
        assert!(take(r#"{"stream_options": {"include_usage": true}}"#).is_err());
        assert!(take(r#"{"stream": true, "stream_options": {"pace": 1}}"#).is_err());
    }
}
