//! What a run will do, and what memory it takes, before it begins.

use std::fmt;

use terrace_cache::policy::KvCacheSpec;
use terrace_model::{AttentionSpec, DecoderSpec};
use terrace_tune::TunedModel;
use terrace_tune::data::Split;
use terrace_tune::run::RunOptions;

use super::finetune_args::FinetuneArgs;
use crate::byte_size::ByteSize;

pub struct Plan<'a> {
    pub args: &'a FinetuneArgs,
    pub spec: &'a DecoderSpec,
    pub model: &'a TunedModel,
    pub cache: &'a KvCacheSpec,
    pub split: &'a Split,
    pub lengths: &'a [usize],
    pub options: &'a RunOptions,
}

const F32: usize = 4;

impl Plan<'_> {
    /// Tokens of the longest batch, padded to one length.
    fn batch_tokens(&self) -> usize {
        let longest = self.split.train.iter().map(|case| self.lengths[*case]).max().unwrap_or(0);
        longest * self.options.train.micro_batch_size
    }

    fn trained(&self) -> usize {
        let counts = self.model.parameters().iter().map(|it| it.shape.iter().product::<usize>());
        counts.sum()
    }

    /// Keys and values of a token in the widest layer.
    fn kv_width(&self) -> usize {
        let widths = self.spec.layers.iter().map(|layer| {
            let AttentionSpec::GroupedQuery(attention) = &layer.attention;
            2 * attention.kv_width()
        });
        widths.max().unwrap_or(0)
    }

    /// Names and bytes of what takes memory beside the model's own weights.
    fn memory(&self) -> Vec<(&'static str, usize)> {
        let (tokens, ranks) = (self.batch_tokens(), self.options.ranks);
        let seqs = self.options.train.micro_batch_size;
        let trained = self.trained() * F32;
        let layers = self.spec.layers.len();
        let slots: usize = (0..layers).map(|layer| self.cache.slots(layer)).sum();
        vec![
            ("what is trained", trained),
            ("its gradients", trained * ranks),
            ("the optimiser's numbers", 2 * trained),
            ("layers' inputs", tokens * self.spec.hidden * layers * F32 * ranks),
            ("outputs and their gradients", 2 * tokens * self.spec.hidden * F32 * ranks),
            ("slots of all layers", seqs * slots * self.kv_width() * F32 * ranks),
            ("keys and values of one row", tokens * self.kv_width() * F32 * ranks),
        ]
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
            self.batch_tokens(),
        )?;
        let (micro, global) = (train.micro_batch_size, train.global_batch_size);
        let steps = split.train.len().div_ceil(micro).div_ceil(global / micro) * train.epochs;
        let steps = train.steps_most.map_or(steps as u64, |most| most.min(steps as u64));
        writeln!(f, "{steps} steps of {global} sequences, {micro} at a time")?;
        writeln!(f, "{} numbers are trained", self.trained())?;
        writeln!(f, "memory beside the model's weights, at most:")?;
        let memory = self.memory();
        for (what, bytes) in &memory {
            writeln!(f, "  {what:28} {}", ByteSize(*bytes))?;
        }
        let sum = memory.iter().map(|(_, bytes)| bytes).sum();
        write!(f, "  {:28} {}", "together", ByteSize(sum))
    }
}
