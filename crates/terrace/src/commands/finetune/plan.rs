//! What a run will do, and what memory it takes, before it begins.

use std::fmt;

use terrace_cache::policy::KvCacheSpec;
use terrace_device::{DType, Device};
use terrace_model::DecoderSpec;
use terrace_tune::data::Split;
use terrace_tune::run::RunOptions;
use terrace_tune::{GradientOptions, TunedModel};

use super::finetune_args::FinetuneArgs;
use super::plan_memory::PlannedPass;
use super::planned_memory::{PlannedMemory, PlannedTable};

pub struct Plan<'a> {
    pub args: &'a FinetuneArgs,
    pub spec: &'a DecoderSpec,
    pub model: &'a TunedModel,
    pub device: &'a Device,
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
        let activation = match self.device {
            Device::Cpu => DType::F32,
            Device::Cuda(_) => self.args.precision.activation(),
        };
        PlannedPass { spec, cache, gradients, seqs, tokens: self.longest(), activation }
    }

    fn trained(&self) -> usize {
        let counts = self.model.parameters().iter().map(|it| it.shape.iter().product::<usize>());
        counts.sum()
    }

    /// What takes memory beside the model's own weights: on a CPU all ranks together, on GPUs each.
    fn memory(&self) -> Vec<PlannedMemory> {
        let (trained, ranks) = (self.trained() * size_of::<f32>(), self.options.ranks);
        let of_a_rank = self.pass().memory();
        match self.device {
            Device::Cpu => {
                let all = |row: PlannedMemory| PlannedMemory {
                    device: row.device * ranks,
                    host: row.host * ranks,
                    ..row
                };
                let mut memory = vec![
                    PlannedMemory::on_host("what is trained", trained),
                    PlannedMemory::on_host("its gradients", trained * ranks),
                    PlannedMemory::on_host("the optimiser's numbers", 2 * trained),
                ];
                memory.extend(of_a_rank.into_iter().map(all));
                memory
            }
            Device::Cuda(_) => {
                // Gradients are computed on the GPU, and added up on the host.
                let placed = self.trained() * self.pass().activation.bytes();
                let on_both = |what, device| PlannedMemory { what, device, host: trained };
                let mut memory = vec![
                    on_both("what is trained", placed),
                    on_both("its gradients", trained),
                    PlannedMemory::on_host("the optimiser's numbers", 2 * trained),
                ];
                memory.extend(of_a_rank);
                memory
            }
        }
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
        let is_apart = matches!(self.device, Device::Cuda(_));
        PlannedTable { rows: &self.memory(), is_apart }.fmt(f)
    }
}
