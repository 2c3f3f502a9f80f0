//! `eval.*`: when and on what a run validates.

use clap::{ArgAction, Args};
use terrace_tune::run::EvalOptions;

use super::refused;
use crate::options::{at_least_one, flag};

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
          value_parser = refused::sample_metric)]
    max_new_tokens: Option<u64>,

    /// Also count how many generated answers are right.
    #[arg(long = "eval.use-sample-metric", value_name = "BOOL", hide_short_help = true,
          value_parser = refused::no_sample_metric)]
    use_sample_metric: Option<bool>,

    /// Most tokens of a generated answer.
    #[arg(long = "eval.sample-metric-max-generated-tokens", value_name = "TOKENS",
          hide_short_help = true, value_parser = refused::sample_metric)]
    sample_metric_max_generated_tokens: Option<u64>,

    /// How they are drawn.
    #[arg(long = "eval.sample-metric-temperature", value_name = "NUMBER",
          hide_short_help = true, value_parser = refused::sample_metric)]
    sample_metric_temperature: Option<u64>,

    /// Among how many.
    #[arg(long = "eval.sample-metric-top-k", value_name = "TOKENS", hide_short_help = true,
          value_parser = refused::sample_metric)]
    sample_metric_top_k: Option<u64>,

    /// Among what share.
    #[arg(long = "eval.sample-metric-top-p", value_name = "SHARE", hide_short_help = true,
          value_parser = refused::sample_metric)]
    sample_metric_top_p: Option<u64>,
}

impl EvalArgs {
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
