//! How to generate, as users say it: anything may be left out.

use serde::{Deserialize, Serialize};

use crate::request::TokenId;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GenerationConfig {
    pub do_sample: Option<bool>,
    pub temperature: Option<f32>,
    pub top_k: Option<usize>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub repetition_penalty: Option<f32>,
    pub presence_penalty: Option<f32>,
    pub frequency_penalty: Option<f32>,
    pub no_repeat_ngram_size: Option<usize>,
    pub forced_eos_token_id: Option<TokenId>,
    /// Token id and what is added to its score.
    pub logit_bias: Option<Vec<(TokenId, f32)>>,
    pub seed: Option<u64>,
    /// Texts that end the answer.
    pub stop: Option<Vec<String>>,
    pub stop_token_ids: Option<Vec<TokenId>>,
    pub min_new_tokens: Option<usize>,
    pub max_new_tokens: Option<usize>,
    /// Prompt included.
    pub max_length: Option<usize>,
    pub ignore_eos: Option<bool>,
    /// How many most probable tokens to report with each token.
    pub logprobs: Option<usize>,
    /// The same for the prompt's tokens.
    pub prompt_logprobs: Option<usize>,
    /// Independent answers to the same prompt.
    pub n: Option<usize>,
}

impl GenerationConfig {
    /// What the engine does when nobody says anything: greedy.
    pub fn seed_defaults() -> Self {
        todo!()
    }

    /// What OpenAI's API does when nobody says anything: draws at temperature 1.
    pub fn openai_defaults() -> Self {
        todo!()
    }

    /// Fills what is left out from `fallback`.
    pub fn or(self, _fallback: &GenerationConfig) -> Self {
        todo!()
    }
}
