//! Embeddings of texts, for every route that gives them or compares texts by them.
//!
//! A text's embedding is the model's last hidden state, after the final norm, at the text's last
//! token: the only one that has seen all of it. It is brought to length 1, so that the product of
//! two embeddings is the cosine of their angle.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use terrace_engine::Error as EngineError;
use terrace_engine::text::{PendingEmbedding, Prompt};

use crate::api_error::{ApiError, ApiResult};
use crate::app_state::AppState;
use crate::bounded_work::{off_thread, within_limits};
use crate::language::ServedModel;
use crate::middleware::RequestLog;

/// Texts of one request, as OpenAI has it.
pub const MAX_INPUTS: usize = 2048;

/// Texts of one request that the engine has at a time; the others do not crowd its queue.
const INPUTS_AT_ONCE: usize = 32;

/// The model's states after the texts of a request, in their order.
pub struct TextEmbeddings {
    hidden: Vec<Vec<f32>>,
    /// Of all texts.
    pub prompt_tokens: usize,
}

pub struct EmbeddingInput {
    pub prompt: Prompt,
    /// The request's field that it came in.
    pub field: &'static str,
    pub overlong: Overlong,
}

/// What happens to a text that is longer than the model reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlong {
    Refuse,
    /// Its end is left out.
    Truncate,
}

impl EmbeddingInput {
    pub fn text(text: String, field: &'static str) -> Self {
        Self { prompt: Prompt::Text(text), field, overlong: Overlong::Refuse }
    }
}

impl TextEmbeddings {
    pub async fn compute(
        state: &AppState,
        log: &RequestLog,
        model: &Arc<ServedModel>,
        inputs: Vec<EmbeddingInput>,
    ) -> ApiResult<Self> {
        if let Some(over) = inputs.get(MAX_INPUTS) {
            let message = format!("there are {} texts, the limit is {MAX_INPUTS}", inputs.len());
            return Err(ApiError::invalid(over.field, message));
        }
        log.set_model(model.name());
        let embeddings = stream::iter(inputs)
            .map(|input| embedding(state, Arc::clone(model), input))
            .buffered(INPUTS_AT_ONCE)
            .try_collect::<Vec<_>>();
        let embeddings = within_limits(state, log, embeddings).await?;
        let prompt_tokens = embeddings.iter().map(|(tokens, _)| tokens).sum();
        log.add_prompt_tokens(prompt_tokens);
        let hidden = embeddings.into_iter().map(|(_, hidden)| hidden).collect();
        Ok(Self { hidden, prompt_tokens })
    }

    /// The first `dimensions` numbers of each, all where it says nothing, brought to length 1.
    pub fn units(self, dimensions: Option<usize>) -> ApiResult<Vec<Vec<f32>>> {
        self.hidden.into_iter().map(|hidden| unit(hidden, dimensions)).collect()
    }
}

/// The cosine of the angle between embeddings of length 1.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// The text's tokens, and the model's state after them.
async fn embedding(
    state: &AppState,
    model: Arc<ServedModel>,
    input: EmbeddingInput,
) -> ApiResult<(usize, Vec<f32>)> {
    let field = input.field;
    let of_field = |error: ApiError| error.about("prompt", field);
    if input.overlong == Overlong::Refuse {
        model.engine().check_length(&input.prompt).map_err(|error| of_field(error.into()))?;
    }
    let held = state.memory.for_prompt(input.prompt.text_bytes()).await?;
    let pending = off_thread(move || {
        let _held = held;
        submit(&model, input)
    })
    .await
    .map_err(of_field)?;
    let tokens = pending.prompt_tokens();
    Ok((tokens, pending.wait().await?))
}

fn submit(model: &ServedModel, input: EmbeddingInput) -> ApiResult<PendingEmbedding> {
    let EmbeddingInput { prompt, overlong, .. } = input;
    if overlong == Overlong::Refuse {
        return Ok(model.engine().embed(prompt)?);
    }
    let limit = match model.engine().embed(prompt.clone()) {
        Err(
            EngineError::PromptTooLong { limit, .. }
            | EngineError::PromptTextTooLong { limit, .. }
            | EngineError::ContextTooLong { limit, .. },
        ) => limit.min(model.context_tokens()),
        other => return Ok(other?),
    };
    let tokens = match prompt {
        Prompt::Text(text) | Prompt::Rendered(text) => model.encode_start(&text, limit)?,
        Prompt::Tokens(mut tokens) => {
            tokens.truncate(limit);
            tokens
        }
    };
    Ok(model.engine().embed(Prompt::Tokens(tokens))?)
}

fn unit(mut hidden: Vec<f32>, dimensions: Option<usize>) -> ApiResult<Vec<f32>> {
    let all = hidden.len();
    match dimensions {
        Some(wanted) if wanted == 0 || wanted > all => {
            let message = format!("dimensions is {wanted}: this model has 1 to {all}");
            return Err(ApiError::invalid("dimensions", message));
        }
        Some(wanted) => hidden.truncate(wanted),
        None => {}
    }
    let length = hidden.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    // A state of nothing but zeros has no direction and stays as it is.
    let scale = if length > 0.0 { (1.0 / length) as f32 } else { 1.0 };
    hidden.iter_mut().for_each(|value| *value *= scale);
    Ok(hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embeddings_have_length_one() {
        assert_eq!(unit(vec![3.0, 4.0], None).unwrap(), [0.6, 0.8]);
        assert_eq!(unit(vec![3.0, 4.0], Some(1)).unwrap(), [1.0]);
        assert_eq!(unit(vec![0.0, 0.0], None).unwrap(), [0.0, 0.0]);
        assert!(unit(vec![3.0, 4.0], Some(0)).is_err());
        assert!(unit(vec![3.0, 4.0], Some(3)).is_err());
    }

    #[test]
    fn the_cosine_is_the_product() {
        assert_eq!(cosine(&[1.0, 0.0], &[1.0, 0.0]), 1.0);
        assert_eq!(cosine(&[1.0, 0.0], &[0.0, 1.0]), 0.0);
        assert_eq!(cosine(&[1.0, 0.0], &[-1.0, 0.0]), -1.0);
    }
}
