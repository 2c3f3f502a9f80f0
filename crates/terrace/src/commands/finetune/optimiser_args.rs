//! `optimizer` and `optimizer.*`.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use terrace_tune::optimiser::{OptimiserKind, OptimiserOptions};

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Optimiser (numbers that are left out are PyTorch's)")]
pub struct OptimiserArgs {
    /// What changes the weights by their gradients.
    #[arg(long, value_name = "NAME", default_value = "AdamW",
          value_parser = PossibleValuesParser::new(OptimiserKind::ALL.map(OptimiserKind::name))
              .map(|name| OptimiserKind::named(&name).expect("one of them")))]
    optimizer: OptimiserKind,

    /// The base learning rate.
    #[arg(long = "optimizer.learning-rate", value_name = "RATE")]
    learning_rate: Option<f64>,

    /// How much weights shrink by themselves.
    #[arg(long = "optimizer.weight-decay", value_name = "NUMBER")]
    weight_decay: Option<f64>,

    /// Added to divisors.
    #[arg(long = "optimizer.eps", value_name = "NUMBER", hide_short_help = true)]
    eps: Option<f64>,

    /// Of RMSprop and SGD.
    #[arg(long = "optimizer.momentum", value_name = "NUMBER", hide_short_help = true)]
    momentum: Option<f64>,

    /// Of SGD's momentum.
    #[arg(long = "optimizer.dampening", value_name = "NUMBER", hide_short_help = true)]
    dampening: Option<f64>,

    /// Of Adam, AdamW and Adamax: two numbers with a comma between, such as 0.9,0.999.
    #[arg(long = "optimizer.adam-betas", value_name = "BETA1,BETA2", hide_short_help = true,
          value_parser = betas)]
    adam_betas: Option<[f64; 2]>,

    /// Of Adadelta.
    #[arg(long = "optimizer.adadelta-rho", value_name = "NUMBER", hide_short_help = true)]
    adadelta_rho: Option<f64>,

    /// Of RMSprop, spelt as in keys_values.
    #[arg(long = "optimizer.rmspprop-alpha", value_name = "NUMBER", hide_short_help = true)]
    rmspprop_alpha: Option<f64>,
}

impl OptimiserArgs {
    pub fn options(&self) -> OptimiserOptions {
        OptimiserOptions {
            kind: self.optimizer,
            learning_rate: self.learning_rate,
            weight_decay: self.weight_decay,
            eps: self.eps,
            momentum: self.momentum,
            dampening: self.dampening,
            adam_betas: self.adam_betas,
            adadelta_rho: self.adadelta_rho,
            rmsprop_alpha: self.rmspprop_alpha,
        }
    }
}

/// Also as Python writes a tuple or a list.
fn betas(text: &str) -> Result<[f64; 2], String> {
    let inner = text.trim().trim_matches(|c| matches!(c, '(' | ')' | '[' | ']'));
    let numbers: Vec<f64> = inner.split(',').filter_map(|part| part.trim().parse().ok()).collect();
    numbers.try_into().map_err(|_| "it must be two numbers, such as 0.9,0.999".to_owned())
}
