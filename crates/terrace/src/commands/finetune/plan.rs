//! What a run will do, and what memory it takes, before it begins.

use std::fmt;

use terrace_cache::policy::KvCacheSpec;
use terrace_model::DecoderSpec;
use terrace_tune::data::Split;
use terrace_tune::run::RunOptions;
use terrace_tune::{GradientOptions, TunedModel};

use super::finetune_args::FinetuneArgs;
use super::plan_memory::PlannedPass;
use crate::byte_size::ByteSize;

pub struct Plan<'a> {
    pub args: &'a FinetuneArgs,
    pub spec: &'a DecoderSpec,
    pub model: &'a TunedModel,
    pub cache: &'a KvCacheSpec,
    pub gradients: &'a GradientOptions,
    pub split: &'a Split,
    pub lengths: &'a [usize],
    pub options: &'a RunOptions,
}

impl Plan<'_> {
    fn longest(&self) -> usize {
        self.split.train.iter().map(|case| self.lengths[*case]).max().unwrap_or(0)
    }

    fn pass(&self) -> PlannedPass<'_> {
        let Plan { spec, cache, gradients, options, .. } = *self;
        let seqs = options.train.micro_batch_size;
        PlannedPass { spec, cache, gradients, seqs, tokens: self.longest() }
    }

    fn trained(&self) -> usize {
        let counts = self.model.parameters().iter().map(|it| it.shape.iter().product::<usize>());
        counts.sum()
    }

    /// Names and bytes of what takes memory beside the model's own weights.
    fn memory(&self) -> Vec<(&'static str, usize)> {
        let (trained, ranks) = (self.trained() * size_of::<f32>(), self.options.ranks);
        let mut memory = vec![
            ("what is trained", trained),
            ("its gradients", trained * ranks),
            ("the optimiser's numbers", 2 * trained),
        ];
        let of_a_rank = self.pass().memory();
        memory.extend(of_a_rank.into_iter().map(|(what, bytes)| (what, bytes * ranks)));
        memory
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { args, split, options, .. } = self;
        let train = &options.train;
        writeln!(f, "{} tuned into {}", args.model, args.out_dir.display())?;
        writeln!(
            f,
            "{} cases train, {} validate, {} are left for tests; the longest batch has {} tokens",
            split.train.len(),
            split.validation.len(),
            split.test.len(),
            self.longest() * train.micro_batch_size,
        )?;
        let (micro, global) = (train.micro_batch_size, train.global_batch_size);
        let steps = split.train.len().div_ceil(micro).div_ceil(global / micro) * train.epochs;
        let steps = train.steps_most.map_or(steps as u64, |most| most.min(steps as u64));
        writeln!(f, "{steps} steps of {global} sequences, {micro} at a time")?;
        writeln!(f, "{} numbers are trained", self.trained())?;
        writeln!(f, "{}", self.pass().way())?;
        writeln!(f, "memory beside the model's weights, about:")?;
        let memory = self.memory();
        for (what, bytes) in &memory {
            writeln!(f, "  {what:28} {}", ByteSize(*bytes))?;
        }
        let sum = memory.iter().map(|(_, bytes)| bytes).sum();
        write!(f, "  {:28} {}", "together", ByteSize(sum))
    }
}
