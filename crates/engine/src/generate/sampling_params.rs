//! How the next token is sampled: every option decided, every value checked.
//!
//! Users speak `GenerationConfig`, where anything may be left out; this is what is left after
//! presets are merged. There is no `Default`: a wrong default would be silent.

use std::sync::Arc;

use crate::generate::logits_processor::LogitsProcessor;
use crate::generate::sampling_strategy::SamplingStrategy;
use crate::guidance::Guide;
use terrace_cache::TokenId;

#[derive(Clone)]
pub struct SamplingParams {
    /// Draw from the distribution; otherwise take the most probable token.
    pub do_sample: bool,
    pub temperature: f32,
    /// Keep this many tokens; 0 keeps all.
    pub top_k: usize,
    pub top_p: f32,
    pub min_p: f32,
    /// Keep the tokens whose surprisal is nearest to the entropy, as many as hold this much of the
    /// probability; 1 keeps all.
    pub typical_p: f32,
    pub repetition_penalty: f32,
    pub presence_penalty: f32,
    pub frequency_penalty: f32,
    /// No run of this many tokens occurs twice; 0 allows all.
    pub no_repeat_ngram_size: usize,
    /// Token sequences that must not occur in the output.
    pub bad_words: Vec<Vec<TokenId>>,
    /// The last token when the length limit is reached.
    pub forced_eos: Option<TokenId>,
    pub logit_bias: Vec<(TokenId, f32)>,
    pub seed: u64,
    /// Independent outputs to the same prompt.
    pub choices: usize,
    pub max_new_tokens: usize,
    /// Stop tokens are forbidden before this many new tokens.
    pub min_new_tokens: usize,
    /// Tokens that end the output; the end-of-sequence ids are among them unless ignored.
    pub stop_ids: Vec<TokenId>,
    /// Report the log-probabilities of this many most probable tokens, and of the chosen one.
    pub logprobs: Option<usize>,
    /// The same for every token of the prompt.
    pub prompt_logprobs: Option<usize>,
    /// Report what the cache holds when the output ends.
    pub cache_trace: bool,
    /// The user's own processors, applied after the built-in ones and before temperature.
    pub processors: Vec<Arc<dyn LogitsProcessor>>,
    /// The user's own way to sample, in place of `do_sample`, temperature and what follows it.
    pub strategy: Option<Arc<dyn SamplingStrategy>>,
    /// What every output must look like. Its end is an end-of-sequence id, so these are among the
    /// `stop_ids`.
    pub guide: Option<Arc<Guide>>,
}

impl SamplingParams {
    /// The most probable token each time, with every processor off and no end but the length.
    pub fn greedy(max_new_tokens: usize) -> Self {
        SamplingParams {
            do_sample: false,
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical_p: 1.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            no_repeat_ngram_size: 0,
            bad_words: Vec::new(),
            forced_eos: None,
            logit_bias: Vec::new(),
            seed: 0,
            choices: 1,
            max_new_tokens,
            min_new_tokens: 0,
            stop_ids: Vec::new(),
            logprobs: None,
            prompt_logprobs: None,
            cache_trace: false,
            processors: Vec::new(),
            strategy: None,
            guide: None,
        }
    }
}

impl std::fmt::Debug for SamplingParams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SamplingParams")
            .field("do_sample", &self.do_sample)
            .field("seed", &self.seed)
            .field("choices", &self.choices)
            .field("max_new_tokens", &self.max_new_tokens)
            .finish_non_exhaustive()
    }
}
