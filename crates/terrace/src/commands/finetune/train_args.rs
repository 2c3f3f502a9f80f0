//! `train.*`: how long and in what portions a model learns.

use clap::{ArgAction, Args};
use terrace_tune::LossMean;
use terrace_tune::data::FirstBatches;
use terrace_tune::run::{EarlyStopping, TrainOptions, WarmUp};

use super::refused;
use crate::options::{at_least_one, flag, whole_number};
use crate::time_span::TimeSpan;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Training")]
pub struct TrainArgs {
    /// Sequences of one forward and backward pass.
    #[arg(long = "train.micro-batch-size", value_name = "SEQUENCES", default_value_t = 2,
          value_parser = at_least_one::<usize>)]
    micro_batch_size: usize,

    /// Sequences by whose mean gradient the weights change, of all devices together; a multiple of
    /// the micro-batch. Left out: one micro-batch on each device.
    #[arg(long = "train.global-batch-size", value_name = "SEQUENCES",
          value_parser = at_least_one::<usize>)]
    global_batch_size: Option<usize>,

    /// How often each sequence is learnt.
    #[arg(long = "train.epochs", value_name = "COUNT", default_value_t = 5,
          value_parser = at_least_one::<usize>)]
    epochs: usize,

    /// Most steps. Left out: those of all epochs.
    #[arg(long = "train.max-steps", value_name = "STEPS", value_parser = at_least_one::<u64>)]
    max_steps: Option<u64>,

    /// End after the step in which so many tokens have been read.
    #[arg(long = "train.max-tokens", value_name = "TOKENS", value_parser = at_least_one::<u64>)]
    max_tokens: Option<u64>,

    /// End after the step in which so much time has passed, such as 8h.
    #[arg(long = "train.max-time", value_name = "TIME")]
    max_time: Option<TimeSpan>,

    /// Longest sequence that is learnt; as --data.max-seq-length, of which the smaller counts.
    #[arg(long = "train.max-seq-length", value_name = "TOKENS",
          value_parser = at_least_one::<usize>)]
    pub max_seq_length: Option<usize>,

    /// Steps over which the learning rate rises, before it falls along a cosine. Left out: a share
    /// of all steps.
    #[arg(long = "train.lr-warmup-steps", value_name = "STEPS",
          value_parser = whole_number::<u64>, conflicts_with = "lr_warmup_fraction")]
    lr_warmup_steps: Option<u64>,

    /// That share. Left out: 0.15.
    #[arg(long = "train.lr-warmup-fraction", value_name = "SHARE")]
    lr_warmup_fraction: Option<f64>,

    /// Steps between saved models.
    #[arg(long = "train.save-interval", value_name = "STEPS", default_value_t = 50,
          value_parser = at_least_one::<u64>)]
    save_interval: u64,

    /// Steps between lines of the log.
    #[arg(long = "train.log-interval", value_name = "STEPS", default_value_t = 1,
          value_parser = at_least_one::<u64>)]
    log_interval: u64,

    /// Gradients whose norm is larger are scaled down to it.
    #[arg(long = "train.max-grad-norm", value_name = "NORM", default_value_t = 1.0)]
    max_grad_norm: f64,

    /// Whether all targets of a batch count alike; else all its sequences do.
    #[arg(long = "train.average-loss-per-batch", value_name = "BOOL", default_value_t = true,
          value_parser = flag, action = ArgAction::Set)]
    average_loss_per_batch: bool,

    /// End when so many validations in a row are no better than the best before them. Left out:
    /// never.
    #[arg(long = "train.early-stopping", value_name = "VALIDATIONS",
          value_parser = whole_number::<u64>)]
    early_stopping: Option<u64>,

    /// Train the head's weights as the embedding's: a model's files say so, and it cannot be
    /// changed.
    #[arg(long = "train.tie-embeddings", value_name = "BOOL", hide_short_help = true,
          value_parser = refused::tie_embeddings)]
    tie_embeddings: Option<bool>,

    /// Steps between models that are saved besides those of --train.save-interval.
    #[arg(long = "train.intermed-save-interval", value_name = "STEPS", hide_short_help = true,
          value_parser = refused::intermediate)]
    intermed_save_interval: Option<u64>,

    /// How many of them.
    #[arg(long = "train.intermed-save-num", value_name = "COUNT", hide_short_help = true,
          value_parser = refused::intermediate)]
    intermed_save_num: Option<u64>,
}

impl TrainArgs {
    pub fn micro_batch_size(&self) -> usize {
        self.micro_batch_size
    }

    pub fn options(&self, ranks: usize, first_batches: FirstBatches) -> TrainOptions {
        let each_rank = self.micro_batch_size * ranks;
        TrainOptions {
            micro_batch_size: self.micro_batch_size,
            global_batch_size: self.global_batch_size.unwrap_or(each_rank),
            epochs: self.epochs,
            steps_most: self.max_steps,
            tokens_most: self.max_tokens,
            time_most: self
                .max_time
                .map(|TimeSpan(seconds)| std::time::Duration::from_secs(seconds)),
            warm_up: match self.lr_warmup_steps {
                Some(steps) => WarmUp::Steps(steps),
                None => WarmUp::Fraction(self.lr_warmup_fraction.unwrap_or(0.15)),
            },
            save_interval: Some(self.save_interval),
            log_interval: self.log_interval,
            gradient_norm_most: Some(self.max_grad_norm),
            loss_mean: match self.average_loss_per_batch {
                true => LossMean::Targets,
                false => LossMean::Sequences,
            },
            first_batches,
            early_stopping: self.early_stopping.map(|patience| EarlyStopping { patience }),
        }
    }
}
