//! How the next token is sampled, as far as the command line says it.

use clap::Args;
use terrace_engine::text::GenerationConfig;

use crate::options::{flag, whole_number};

/// Everything may be left out; the model's own presets and the defaults fill the rest.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Sampling (left out: the model's own presets, then greedy)")]
pub struct SamplingOptions {
    /// Sample tokens by their probability, not greedily the most probable one.
    #[arg(long, value_name = "BOOL", value_parser = flag, num_args = 0..=1,
          default_missing_value = "true", require_equals = true)]
    do_sample: Option<bool>,

    /// Flattens (above 1) or sharpens (below 1) the probabilities; 0 always takes the best token.
    #[arg(long, value_name = "FACTOR", value_parser = ranges::temperature)]
    temperature: Option<f32>,

    /// Sample from this many best tokens only; 0 means all.
    #[arg(long, value_name = "TOKENS", value_parser = whole_number::<usize>)]
    top_k: Option<usize>,

    /// Sample from the best tokens that together have this probability; 1 means all.
    #[arg(long, value_name = "PROBABILITY", value_parser = ranges::top_p)]
    top_p: Option<f32>,

    /// Drop tokens less probable than this share of the best token's probability; 0 drops none.
    #[arg(long, value_name = "SHARE", value_parser = ranges::min_p)]
    min_p: Option<f32>,

    /// Makes tokens that have occurred, in the prompt too, less probable; 1 changes nothing.
    #[arg(long, value_name = "FACTOR", value_parser = ranges::repetition_penalty)]
    repetition_penalty: Option<f32>,

    /// Subtracted from the logit of each token that the output has used; 0 changes nothing.
    #[arg(long, value_name = "SCORE", value_parser = ranges::presence_penalty)]
    presence_penalty: Option<f32>,

    /// Subtracted from a token's logit once for each time the output has used it.
    #[arg(long, value_name = "SCORE", value_parser = ranges::frequency_penalty)]
    frequency_penalty: Option<f32>,

    /// No n-gram of this many tokens occurs twice; 0 allows all.
    #[arg(long, value_name = "TOKENS", value_parser = whole_number::<usize>)]
    no_repeat_ngram_size: Option<usize>,

    /// The token that is put last when an output reaches its longest length.
    #[arg(long, value_name = "TOKEN_ID", value_parser = whole_number::<u32>)]
    forced_eos_token_id: Option<u32>,

    /// Go on after the model's end-of-text token, until another limit.
    #[arg(long, value_name = "BOOL", value_parser = flag, num_args = 0..=1,
          default_missing_value = "true", require_equals = true)]
    ignore_eos: Option<bool>,

    /// Makes random draws repeatable.
    #[arg(long, value_name = "NUMBER", value_parser = whole_number::<u64>)]
    seed: Option<u64>,

    /// A text that ends the output, itself left out; may be given several times.
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
}

/// The ranges that the engine allows, checked before a model is opened.
mod ranges {
    use terrace_engine::Error;
    use terrace_engine::text::GenerationConfig;

    fn ranged(text: &str, config: impl Fn(f32) -> GenerationConfig) -> Result<f32, String> {
        let number: f32 = text.trim().parse().map_err(|_| "it must be a number".to_owned())?;
        match config(number).check_distribution() {
            Ok(()) => Ok(number),
            Err(Error::BadOption { rule, .. }) => Err(rule),
            Err(other) => Err(other.to_string()),
        }
    }

    macro_rules! ranged {
        ($($option:ident)*) => {$(
            pub fn $option(text: &str) -> Result<f32, String> {
                ranged(text, |number| GenerationConfig {
                    $option: Some(number),
                    ..GenerationConfig::default()
                })
            }
        )*};
    }

    ranged!(temperature top_p min_p repetition_penalty presence_penalty frequency_penalty);
}

impl SamplingOptions {
    pub fn generation(&self) -> GenerationConfig {
        GenerationConfig {
            do_sample: self.do_sample,
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            no_repeat_ngram_size: self.no_repeat_ngram_size,
            forced_eos_token_id: self.forced_eos_token_id,
            ignore_eos: self.ignore_eos,
            seed: self.seed,
            stop: (!self.stop.is_empty()).then(|| self.stop.clone()),
            ..GenerationConfig::default()
        }
    }
}
