//! What a response repeats of its request, and the checks of what is only repeated.

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::api_error::{ApiError, ApiResult};
use crate::fields::Fields;
use crate::openai::responses::text_format::TextConfig;

/// OpenAI's limits.
const MAX_METADATA: usize = 16;
const MAX_METADATA_NAME: usize = 64;
const MAX_METADATA_VALUE: usize = 512;

/// The request's options.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct RequestEcho {
    /// Always false: a response is made while its request waits.
    pub background: bool,
    /// The system's message for this response alone.
    pub instructions: Option<String>,
    /// Longest output in tokens.
    pub max_output_tokens: Option<usize>,
    /// Ignored: it is about tools that a server runs.
    pub max_tool_calls: Option<usize>,
    /// The client's notes.
    pub metadata: Map<String, Value>,
    /// Whether there may be several calls.
    pub parallel_tool_calls: bool,
    /// The response that this one goes on from.
    pub previous_response_id: Option<String>,
    /// The session whose conversation it is.
    pub prompt_cache_key: Option<String>,
    pub reasoning: ReasoningConfig,
    /// Ignored.
    pub safety_identifier: Option<String>,
    /// `default`: there is one.
    pub service_tier: &'static str,
    /// Whether the response can be retrieved.
    pub store: bool,
    /// Null where the request leaves it to the server and the model.
    pub temperature: Option<f32>,
    pub text: TextConfig,
    /// Which functions may or must be called.
    pub tool_choice: Value,
    /// The functions that may be called.
    pub tools: Vec<Value>,
    /// How many of the best tokens are reported at each position.
    pub top_logprobs: usize,
    /// Null where the request leaves it to the server and the model.
    pub top_p: Option<f32>,
    /// Always `disabled`: a conversation that is too long is refused.
    pub truncation: &'static str,
    /// Ignored.
    pub user: Option<String>,
}

/// How much the model thinks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct ReasoningConfig {
    /// Given to the chat template.
    pub effort: Option<String>,
    /// Ignored: reasoning is given in full.
    pub summary: Option<String>,
}

/// What the client notes beside the response.
pub fn take_metadata(fields: &mut Fields) -> ApiResult<Map<String, Value>> {
    let metadata: Map<_, _> = fields.take("metadata")?.unwrap_or_default();
    let invalid = |message: String| Err(ApiError::invalid("metadata", message));
    if MAX_METADATA < metadata.len() {
        let count = metadata.len();
        return invalid(format!("metadata has {count} fields, the limit is {MAX_METADATA}"));
    }
    for (name, value) in &metadata {
        let length = value.as_str().map(|text| text.chars().count());
        if name.chars().count() > MAX_METADATA_NAME
            || length.is_none_or(|length| length > MAX_METADATA_VALUE)
        {
            return invalid(format!(
                "metadata must have names of at most {MAX_METADATA_NAME} characters and texts of \
                 at most {MAX_METADATA_VALUE}"
            ));
        }
    }
    Ok(metadata)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn take(metadata: Value) -> ApiResult<Map<String, Value>> {
        take_metadata(&mut Fields::parse(json!({"metadata": metadata}).to_string().as_bytes())?)
    }

    #[test]
    fn metadata_are_a_few_short_texts() {
        assert_eq!(take(Value::Null), Ok(Map::new()));
        assert_eq!(Value::Object(take(json!({"a": "b"})).unwrap()), json!({"a": "b"}));
        let many: Map<_, _> = (0..17).map(|i| (i.to_string(), json!("a"))).collect();
        for wrong in [
            json!({"a": 1}),
            json!({"a": "b".repeat(513)}),
            json!({"a".repeat(65): "b"}),
            Value::Object(many),
        ] {
            assert!(take(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
