//! What a run does, apart from model, cache and gradients: the arguments `train.*` and `eval.*`.

use std::time::Duration;

use super::early_stopping::EarlyStopping;
use crate::data::FirstBatches;
use crate::error::Error;
use crate::loss_factors::LossMean;
use crate::optimiser::Schedule;

#[derive(Clone, Debug, PartialEq)]
pub struct RunOptions {
    pub train: TrainOptions,
    pub eval: EvalOptions,
    pub seed: u64,
    /// Processes that would each have a device of their own; here threads that share the cores.
    pub ranks: usize,
    /// Whether rotations are scaled for batches longer than the model was trained for.
    pub yarn_rope: bool,
    /// Whether what is trained is rounded to bfloat16 after each step.
    pub rounds_weights: bool,
    /// Whether a pass that runs out of memory is repeated in smaller parts.
    pub recovers_memory: bool,
    /// States that are kept, the newest.
    pub states_kept: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TrainOptions {
    /// Sequences of one pass.
    pub micro_batch_size: usize,
    /// Sequences by whose mean gradient the weights change; of all ranks together.
    pub global_batch_size: usize,
    pub epochs: usize,
    pub steps_most: Option<u64>,
    pub tokens_most: Option<u64>,
    pub time_most: Option<Duration>,
    pub warm_up: WarmUp,
    /// Steps between saved models and states.
    pub save_interval: Option<u64>,
    /// Steps between reports.
    pub log_interval: u64,
    pub gradient_norm_most: Option<f64>,
    pub loss_mean: LossMean,
    pub first_batches: FirstBatches,
    pub early_stopping: Option<EarlyStopping>,
}

/// How long the learning rate rises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WarmUp {
    Steps(u64),
    /// Of all steps.
    Fraction(f64),
}

#[derive(Clone, Debug, PartialEq)]
pub struct EvalOptions {
    /// Steps between validations.
    pub interval: u64,
    /// Most batches of a validation.
    pub iters_most: usize,
    /// Before the first step; else two cases are run, to see early what breaks.
    pub initial: bool,
    /// After the last step.
    pub last: bool,
    /// Left out: as for training.
    pub micro_batch_size: Option<usize>,
}

impl RunOptions {
    pub fn check(&self) -> Result<(), Error> {
        let TrainOptions { micro_batch_size, global_batch_size, epochs, .. } = self.train;
        let counts = [
            ("devices", self.ranks),
            ("train.micro_batch_size", micro_batch_size),
            ("train.global_batch_size", global_batch_size),
            ("train.epochs", epochs),
            ("eval.micro_batch_size", self.eval.micro_batch_size.unwrap_or(1)),
            ("eval.interval", self.eval.interval as usize),
            ("train.log_interval", self.train.log_interval as usize),
        ];
        for (argument, count) in counts {
            if count == 0 {
                let wanted = "1 or more".to_owned();
                return Err(Error::BadArgument { argument, value: "0".to_owned(), wanted });
            }
        }
        let each_rank = micro_batch_size * self.ranks;
        if !global_batch_size.is_multiple_of(each_rank) {
            let wanted = match self.ranks {
                1 => format!("a multiple of train.micro_batch_size, {micro_batch_size}"),
                ranks => format!(
                    "a multiple of {each_rank}: of train.micro_batch_size, {micro_batch_size}, on \
                     each of {ranks} devices"
                ),
            };
            return Err(Error::BadArgument {
                argument: "train.global_batch_size",
                value: global_batch_size.to_string(),
                wanted,
            });
        }
        if let WarmUp::Fraction(fraction) = self.train.warm_up
            && !(0.0..=1.0).contains(&fraction)
        {
            return Err(Error::BadArgument {
                argument: "train.lr_warmup_fraction",
                value: fraction.to_string(),
                wanted: "from 0 to 1".to_owned(),
            });
        }
        Ok(())
    }

    /// Micro-batches of a step.
    pub(crate) fn micro_batches(&self) -> usize {
        self.train.global_batch_size / self.train.micro_batch_size
    }
}

impl WarmUp {
    pub(crate) fn schedule(self, steps: u64) -> Schedule {
        match self {
            WarmUp::Steps(warmup_steps) => Schedule { warmup_steps, steps },
            WarmUp::Fraction(fraction) => Schedule::with_fraction(steps, fraction),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(micro: usize, global: usize, ranks: usize) -> RunOptions {
        RunOptions {
            train: TrainOptions {
                micro_batch_size: micro,
                global_batch_size: global,
                epochs: 1,
                steps_most: None,
                tokens_most: None,
                time_most: None,
                warm_up: WarmUp::Fraction(0.15),
                save_interval: None,
                log_interval: 1,
                gradient_norm_most: None,
                loss_mean: LossMean::Targets,
                first_batches: FirstBatches::Any,
                early_stopping: None,
            },
            eval: EvalOptions {
                interval: 1,
                iters_most: 1,
                initial: false,
                last: false,
                micro_batch_size: None,
            },
            seed: 0,
            ranks,
            yarn_rope: true,
            rounds_weights: false,
            recovers_memory: true,
            states_kept: 3,
        }
    }

    #[test]
    fn global_batches_are_whole_micro_batches_of_each_rank() {
        for (micro, global, ranks, fits) in [
            (4, 4, 1, true),
            (4, 32, 8, true),
            (4, 64, 8, true),
            (4, 6, 1, false),
            (4, 4, 8, false),
        ] {
            assert_eq!(options(micro, global, ranks).check().is_ok(), fits, "{micro}, {global}");
        }
        let error = options(4, 4, 8).check().expect_err("too few for 8 ranks").to_string();
        assert!(error.contains("a multiple of 32"), "{error}");
        assert!(options(0, 4, 1).check().is_err());
    }
}
