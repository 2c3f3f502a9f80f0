//! `eval.*`: when and on what a run validates.

use clap::{ArgAction, Args};
use terrace_tune::run::EvalOptions;

use super::refused;
use crate::options::{at_least_one, flag, fraction};

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Validation")]
pub struct EvalArgs {
    /// Steps between validations.
    #[arg(long = "eval.interval", value_name = "STEPS", default_value_t = 100,
          value_parser = at_least_one::<u64>)]
    interval: u64,

    /// Most batches of a validation.
    #[arg(long = "eval.max-iters", value_name = "BATCHES", default_value_t = 100,
          value_parser = at_least_one::<usize>)]
    max_iters: usize,

    /// Whether to validate before the first step. If not, two cases are still run, which show early
    /// what breaks.
    #[arg(long = "eval.initial-validation", value_name = "BOOL", default_value_t = false,
          value_parser = flag, action = ArgAction::Set)]
    initial_validation: bool,

    /// Whether to validate after the last step.
    #[arg(long = "eval.final-validation", value_name = "BOOL", default_value_t = true,
          value_parser = flag, action = ArgAction::Set)]
    final_validation: bool,

    /// Sequences of a batch. Left out: as for training.
    #[arg(id = "eval.micro-batch-size", long = "eval.micro-batch-size", value_name = "SEQUENCES",
          value_parser = at_least_one::<usize>)]
    micro_batch_size: Option<usize>,

    /// Tokens that LitGPT generates to look at.
    #[arg(long = "eval.max-new-tokens", value_name = "TOKENS", hide_short_help = true,
          value_parser = refused::max_new_tokens)]
    max_new_tokens: Option<u64>,

    #[command(flatten)]
    samples: SampleArgs,
}

/// Answers that are generated in validation.
#[derive(Args, Clone, Copy, Debug)]
pub struct SampleArgs {
    /// Also let the model answer the validation cases' prompts, through the cache that it is tuned
    /// with, and count the answers that contain the completion. The engine that does so has weights
    /// of its own for the time.
    #[arg(long = "eval.use-sample-metric", value_name = "BOOL", default_value_t = false,
          value_parser = flag, action = ArgAction::Set)]
    is_used: bool,

    /// Most tokens of a generated answer.
    #[arg(long = "eval.sample-metric-max-generated-tokens", value_name = "TOKENS",
          hide_short_help = true, default_value_t = 20, value_parser = at_least_one::<usize>)]
    pub tokens_most: usize,

    /// How they are drawn; 0 takes the most probable token.
    #[arg(long = "eval.sample-metric-temperature", value_name = "NUMBER", default_value_t = 0.0,
          hide_short_help = true, value_parser = temperature)]
    pub temperature: f32,

    /// Among how many. Left out: among all.
    #[arg(long = "eval.sample-metric-top-k", value_name = "TOKENS",
          hide_short_help = true, value_parser = at_least_one::<usize>)]
    pub top_k: Option<usize>,

    /// Among what share. Left out: among all.
    #[arg(long = "eval.sample-metric-top-p", value_name = "SHARE",
          hide_short_help = true, value_parser = fraction)]
    pub top_p: Option<f32>,
}

fn temperature(text: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|number: &f32| number.is_finite() && 0.0 <= *number);
    number.ok_or_else(|| "it must be 0 or more".to_owned())
}

impl EvalArgs {
    /// How answers are generated, if they are.
    pub fn samples(&self) -> Option<SampleArgs> {
        self.samples.is_used.then_some(self.samples)
    }

    pub fn options(&self) -> EvalOptions {
        EvalOptions {
            interval: self.interval,
            iters_most: self.max_iters,
            initial: self.initial_validation,
            last: self.final_validation,
            micro_batch_size: self.micro_batch_size,
        }
    }
}
