//! Micro-batches shared out among ranks, each with its own threads and gradients.
//!
//! What comes of it does not depend on how many ranks there are, but for the order in which
//! numbers are added: each rank adds up its micro-batches, and ranks are added up in their order.

use std::thread;

use terrace_cache::policy::KvCacheSpec;
use terrace_kernels::{Ops, RankSums, TuneOps};
use terrace_model::DecoderSpec;

use super::memory_snapshots::MemorySnapshots;
use super::replicas::RankModels;
use crate::data::CaseBatch;
use crate::error::Error;
use crate::gradient_options::GradientOptions;
use crate::gradient_pass::GradientPass;
use crate::model::Gradients;
use crate::pass_events::Unheard;

/// What all passes of a run have in common.
#[derive(Clone, Copy)]
pub(crate) struct Passes<'a> {
    pub models: RankModels<'a>,
    pub spec: &'a DecoderSpec,
    pub cache: &'a KvCacheSpec,
    pub options: GradientOptions,
    pub yarn_rope: bool,
    /// Where memory is recorded, and which step this is; of its passes the first one is.
    pub snapshots: Option<(&'a MemorySnapshots, u64)>,
}

/// The mean of a step's micro-batches.
pub(crate) struct StepLoss {
    pub loss: f64,
    pub tokens: u64,
}

/// A micro-batch, and the seed of its chunks' lengths and of what branches leave out.
pub(crate) type SeededBatch = (CaseBatch, u64);

impl Passes<'_> {
    /// Writes the mean gradient to the first rank's. `ranks`: as many as gradients.
    pub fn step(
        &self,
        ranks: &[Ops],
        sums: Option<&mut RankSums>,
        gradients: &mut [Gradients],
        batches: &[SeededBatch],
    ) -> Result<StepLoss, Error> {
        let share = 1.0 / batches.len() as f32;
        let losses = thread::scope(|scope| {
            let each = ranks.iter().zip(&mut *gradients).enumerate();
            let spawned: Vec<_> = each
                .map(|(rank, (ops, gradients))| {
                    let own = batches.iter().skip(rank).step_by(ranks.len());
                    scope.spawn(move || self.rank(rank, ops, gradients, own))
                })
                .collect();
            let joined = spawned.into_iter().map(|rank| rank.join().expect("a rank never panics"));
            joined.collect::<Result<Vec<f64>, Error>>()
        })?;
        // What GPUs add up among themselves is fetched from the first of them alone.
        let fetched = if sums.is_some() { 1 } else { ranks.len() };
        if let Some(sums) = sums {
            Gradients::sum_on_devices(gradients, sums)?;
        }
        for (gradients, ops) in gradients.iter_mut().zip(ranks).take(fetched) {
            gradients.fetch(&ops.tuning()?)?;
        }
        let (first, others) = gradients.split_first_mut().expect("there is a rank");
        for other in others {
            first.add(other);
        }
        first.scale(share);
        let tokens = batches.iter().map(|(batch, _)| batch.ids.len() as u64).sum();
        Ok(StepLoss { loss: losses.iter().sum::<f64>() * f64::from(share), tokens })
    }

    /// The sum of a rank's losses; its gradients are those of their sum.
    fn rank<'b>(
        &self,
        rank: usize,
        ops: &Ops,
        gradients: &mut Gradients,
        batches: impl Iterator<Item = &'b SeededBatch>,
    ) -> Result<f64, Error> {
        let ops = ops.tuning()?;
        gradients.clear(&ops);
        let mut recording = match self.snapshots {
            Some((snapshots, step)) if rank == 0 => snapshots.begin(ops.memory(), step)?,
            _ => None,
        };
        let mut sum = 0.0;
        for (batch, seed) in batches {
            let recording = recording.take();
            sum += self.with((rank, ops), batch, *seed, |pass| match recording {
                Some(mut recording) => {
                    let found = pass.run_heard(&batch.batch(), gradients, &mut recording)?;
                    recording.finish()?;
                    Ok(found.loss)
                }
                None => Ok(pass.run_heard(&batch.batch(), gradients, &mut Unheard)?.loss),
            })?;
        }
        Ok(sum)
    }

    /// Calls `f` with the pass that a batch wants, on the device of a rank.
    pub fn with<T>(
        &self,
        (rank, ops): (usize, TuneOps<'_>),
        batch: &CaseBatch,
        seed: u64,
        f: impl FnOnce(&GradientPass<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let tokens = batch.batch().tokens();
        let scaled = match self.yarn_rope && self.spec.context_tokens < tokens {
            true => Some(self.spec.clone().scaled(tokens).ok_or(Error::Unsupported {
                what: format!("a sequence of {tokens} tokens"),
                why: "the model's rotation cannot be scaled; give data.max_seq_length",
            })?),
            false => None,
        };
        let spec = scaled.as_ref().unwrap_or(self.spec);
        let mut options = self.options;
        options.lattice.chunk_seed = seed;
        options.dropout_seed = seed;
        f(&GradientPass { ops, model: self.models.of(rank), spec, cache: self.cache, options })
    }
}
