//! What `/v1/embeddings` takes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::docs::completion_body::PromptBody;

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"input": ["a river", "a stream"]}))]
pub struct EmbeddingBody {
    /// Which model, as `/v1/models` names it. May be left out while one model is served.
    model: Option<String>,
    input: PromptBody,
    /// `float` for a list of numbers (the default), `base64` for their bytes.
    encoding_format: Option<String>,
    /// Give the first so many numbers of each embedding, brought to length 1 again.
    dimensions: Option<usize>,
}
