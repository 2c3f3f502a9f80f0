//! How to generate, as users say it: anything may be left out.
//!
//! Requested and presets are laid over each other with [`GenerationConfig::or`]; `resolve` then
//! decides every option and checks it.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use terrace_cache::TokenId;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "an object of options")]
pub struct GenerationConfig {
    pub do_sample: Option<bool>,
    pub temperature: Option<f32>,
    pub top_k: Option<usize>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    /// Locally typical sampling, above 0 and at most 1; 1 keeps all tokens. The order is that of
    /// transformers: temperature, `top_k`, `top_p`, `min_p`, `typical_p`.
    pub typical_p: Option<f32>,
    pub repetition_penalty: Option<f32>,
    pub presence_penalty: Option<f32>,
    pub frequency_penalty: Option<f32>,
    pub no_repeat_ngram_size: Option<usize>,
    /// Texts that must not occur in the output. Each is tokenised as it is and with a space before
    /// it, and the last token of such a sequence is never sampled right after the others.
    pub bad_words: Option<Vec<String>>,
    pub forced_eos_token_id: Option<TokenId>,
    /// Token id and what is added to its score.
    pub logit_bias: Option<Vec<(TokenId, f32)>>,
    pub seed: Option<u64>,
    /// Texts that end the output.
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
    /// Independent outputs to the same prompt.
    pub n: Option<usize>,
}

impl GenerationConfig {
    /// What the engine does when nobody says anything: greedy. A request that only asks to sample
    /// draws from the 50 best.
    pub fn colossalai_defaults() -> Self {
        Self {
            do_sample: Some(false),
            temperature: Some(1.0),
            top_k: Some(50),
            top_p: Some(1.0),
            repetition_penalty: Some(1.0),
            no_repeat_ngram_size: Some(0),
            ignore_eos: Some(false),
            n: Some(1),
            ..Self::default()
        }
    }

    /// What OpenAI's API does when nobody says anything: draws at temperature 1.
    pub fn openai_defaults() -> Self {
        Self {
            do_sample: Some(true),
            temperature: Some(1.0),
            top_k: Some(0),
            top_p: Some(1.0),
            presence_penalty: Some(0.0),
            frequency_penalty: Some(0.0),
            n: Some(1),
            ..Self::default()
        }
    }

    /// Reads a model's `generation_config.json`. Only what the file names is set; its special
    /// tokens are the tokenizer's business.
    ///
    /// `do_sample: false` is taken as left out: it is what Hugging Face means when the file is
    /// silent, and should not make an API that samples by default greedy.
    pub fn from_hf_json(json: &str) -> Result<Self, Error> {
        let config: Self = serde_json::from_str(json).map_err(Error::GenerationConfig)?;
        Ok(Self { do_sample: config.do_sample.filter(|&sample| sample), ..config })
    }

    /// Fills what is left out from `fallback`. The length is one option, said in one of two ways:
    /// who sets `max_new_tokens` or `max_length` takes neither from the fallback.
    pub fn or(self, fallback: &GenerationConfig) -> Self {
        let fallback = fallback.clone();
        let length = match (self.max_new_tokens, self.max_length) {
            (None, None) => (fallback.max_new_tokens, fallback.max_length),
            named => named,
        };
        Self {
            do_sample: self.do_sample.or(fallback.do_sample),
            temperature: self.temperature.or(fallback.temperature),
            top_k: self.top_k.or(fallback.top_k),
            top_p: self.top_p.or(fallback.top_p),
            min_p: self.min_p.or(fallback.min_p),
            typical_p: self.typical_p.or(fallback.typical_p),
            repetition_penalty: self.repetition_penalty.or(fallback.repetition_penalty),
            presence_penalty: self.presence_penalty.or(fallback.presence_penalty),
            frequency_penalty: self.frequency_penalty.or(fallback.frequency_penalty),
            no_repeat_ngram_size: self.no_repeat_ngram_size.or(fallback.no_repeat_ngram_size),
            bad_words: self.bad_words.or(fallback.bad_words),
            forced_eos_token_id: self.forced_eos_token_id.or(fallback.forced_eos_token_id),
            logit_bias: self.logit_bias.or(fallback.logit_bias),
            seed: self.seed.or(fallback.seed),
            stop: self.stop.or(fallback.stop),
            stop_token_ids: self.stop_token_ids.or(fallback.stop_token_ids),
            min_new_tokens: self.min_new_tokens.or(fallback.min_new_tokens),
            max_new_tokens: length.0,
            max_length: length.1,
            ignore_eos: self.ignore_eos.or(fallback.ignore_eos),
            logprobs: self.logprobs.or(fallback.logprobs),
            prompt_logprobs: self.prompt_logprobs.or(fallback.prompt_logprobs),
            n: self.n.or(fallback.n),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::GenerationConfig;

    #[test]
    fn what_is_left_out_comes_from_the_fallback() {
        let given = GenerationConfig { temperature: Some(0.3), ..Default::default() };
        let merged = given.or(&GenerationConfig::colossalai_defaults());
        let want =
            GenerationConfig { temperature: Some(0.3), ..GenerationConfig::colossalai_defaults() };
        assert_eq!(merged, want);
    }

    #[test]
    fn the_length_is_one_option() {
        let new = GenerationConfig { max_new_tokens: Some(5), ..Default::default() };
        let length = GenerationConfig { max_length: Some(99), ..Default::default() };
        assert_eq!(new.clone().or(&length), new);
        assert_eq!(length.clone().or(&new), length);
        assert_eq!(GenerationConfig::default().or(&length), length);
    }

    #[test]
    fn a_models_file_sets_what_it_names() {
        let json = r#"{"bos_token_id": 1, "do_sample": true, "temperature": 0.6, "top_p": 1,
            "top_k": null, "max_length": 4096, "eos_token_id": [2, 7],
            "transformers_version": "4.31.0"}"#;
        let want = GenerationConfig {
            do_sample: Some(true),
            temperature: Some(0.6),
            top_p: Some(1.0),
            max_length: Some(4096),
            ..Default::default()
        };
        assert_eq!(GenerationConfig::from_hf_json(json).expect("the file is valid"), want);
    }

    #[test]
    fn a_models_file_may_say_little() {
        for json in ["{}", r#"{"do_sample": false}"#, r#"{"eos_token_id": 3}"#] {
            let config = GenerationConfig::from_hf_json(json).expect("the file is valid");
            assert_eq!(config, GenerationConfig::default(), "{json}");
        }
    }

    #[test]
    fn a_broken_file_is_an_error_with_its_place() {
        for json in ["", "7", r#"{"top_k": "many"}"#] {
            let error = GenerationConfig::from_hf_json(json).expect_err("the file is broken");
            assert!(error.to_string().contains("line 1 column"), "{error}");
        }
    }
}
