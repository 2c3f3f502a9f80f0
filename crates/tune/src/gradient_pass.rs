//! Loss and gradients of a batch, through what the cache policy keeps and evicts.

use std::time::{Duration, Instant};

use terrace_cache::policy::{KvCacheSpec, Rule, SlotFormat};
use terrace_device::DType;
use terrace_kernels::TuneOps;
use terrace_model::DecoderSpec;

use crate::backward_pass::BackwardPass;
use crate::batch::Batch;
use crate::checkpoints::{KeptAt, RowsKept, StoredRows};
use crate::error::Error;
use crate::forward_pass::{Checkpoints, Decisions, ForwardPass, Keeps};
use crate::gradient_options::GradientOptions;
use crate::head::{HeadGradients, HeadPass};
use crate::layer::BatchRope;
use crate::model::{Gradients, TunedModel};
use crate::pass_events::{PassEvents, Unheard};
use crate::plan::Lattice;
use crate::slots::BatchReplay;

/// A model, a cache and how gradients through it are computed.
pub struct GradientPass<'a> {
    pub ops: TuneOps<'a>,
    pub model: &'a TunedModel,
    /// With rotations for the batch's length.
    pub spec: &'a DecoderSpec,
    pub cache: &'a KvCacheSpec,
    pub options: GradientOptions,
}

/// What came of a batch, besides gradients.
pub struct BatchLoss {
    pub loss: f64,
    /// Who was kept.
    pub replay: BatchReplay,
    pub times: PassTimes,
}

/// How long each part took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassTimes {
    pub forward: Duration,
    /// From the last layer's outputs to the loss and back.
    pub head: Duration,
    pub backward: Duration,
}

impl GradientPass<'_> {
    /// The policy decides; gradients are added to.
    pub fn run(&self, batch: &Batch<'_>, gradients: &mut Gradients) -> Result<BatchLoss, Error> {
        let found = self.run_heard(batch, gradients, &mut Unheard)?;
        gradients.fetch(&self.ops)?;
        Ok(found)
    }

    /// As [`run`](Self::run), telling how far it has come; gradients stay where the ops compute.
    pub(crate) fn run_heard(
        &self,
        batch: &Batch<'_>,
        gradients: &mut Gradients,
        events: &mut dyn PassEvents,
    ) -> Result<BatchLoss, Error> {
        self.check(batch)?;
        let decisions = Decisions::of_policy(&self.ops, self.cache, self.model, batch.seqs)?;
        self.run_with(batch, decisions, gradients, events)
    }

    /// The loss alone; the policy decides.
    pub fn loss(&self, batch: &Batch<'_>) -> Result<f64, Error> {
        self.check(batch)?;
        let mut decisions = Decisions::of_policy(&self.ops, self.cache, self.model, batch.seqs)?;
        let (lattice, rope) = (self.lattice(batch)?, BatchRope::new(&self.ops, self.spec)?);
        let checkpoints = self.forward(batch, &lattice, &rope, Keeps::Outputs, &mut decisions)?;
        self.head(batch).run(&checkpoints.outputs, None)
    }

    /// What was kept before is kept again.
    pub fn run_replay(
        &self,
        batch: &Batch<'_>,
        replay: BatchReplay,
        gradients: &mut Gradients,
    ) -> Result<BatchLoss, Error> {
        self.check(batch)?;
        let lattice = self.lattice(batch)?;
        let layers = self.model.layers.len();
        let shape = (batch.seqs, layers, lattice.chunks());
        let found = (replay.seqs(), replay.logs()[0].layers(), replay.chunks());
        if found != shape {
            return Err(Error::BadArgument {
                argument: "the replay log",
                value: format!("{} sequences, {} layers, chunks {:?}", found.0, found.1, found.2),
                wanted: format!("{} sequences, {layers} layers, chunks {:?}", shape.0, shape.2),
            });
        }
        let found = self.run_with(batch, Decisions::Replay(replay), gradients, &mut Unheard)?;
        gradients.fetch(&self.ops)?;
        Ok(found)
    }

    /// How a batch is cut.
    pub fn lattice(&self, batch: &Batch<'_>) -> Result<Lattice, Error> {
        let (layers, tokens) = (self.model.layers.len(), batch.tokens());
        let targets = batch.target_tokens();
        Lattice::new(self.cache, layers, tokens, targets, &self.options.lattice)
    }

    fn run_with(
        &self,
        batch: &Batch<'_>,
        mut decisions: Decisions,
        gradients: &mut Gradients,
        events: &mut dyn PassEvents,
    ) -> Result<BatchLoss, Error> {
        let (lattice, rope) = (self.lattice(batch)?, BatchRope::new(&self.ops, self.spec)?);
        let GradientPass { ops, model, options, .. } = self;
        let start = Instant::now();
        let checkpoints = self.forward(batch, &lattice, &rope, Keeps::RowInputs, &mut decisions)?;
        let forward = start.elapsed();
        events.forward_done()?;
        let replay = decisions.into_replay();
        // What no target asks for has no gradient. Never quantised: errors would add up by rows.
        let d_rows = RowsKept {
            seqs: batch.seqs,
            tokens: batch.tokens(),
            blocks: 1,
            block: model.hidden,
            dtype: DType::F32,
            format: SlotFormat::Plain,
            place: KeptAt::Host,
            argument: "grad.layercp_qname",
        };
        let mut d_rows = StoredRows::new(ops, d_rows)?;
        let head = HeadGradients { d_outputs: &mut d_rows, gradients };
        let loss = self.head(batch).run(&checkpoints.outputs, Some(head))?;
        let head = start.elapsed() - forward;
        events.head_done()?;
        let backward = BackwardPass {
            ops: *ops,
            model,
            rope: &rope,
            lattice: &lattice,
            batch,
            replay: &replay,
            kv_checkpoints: options.kv_checkpoints,
            kv_place: if options.kv_on_host { KeptAt::Host } else { KeptAt::Device },
            dropout_seed: options.dropout_seed,
        };
        let Checkpoints { row_inputs, last_cell, .. } = checkpoints;
        backward.run(&row_inputs, last_cell, &mut d_rows, gradients, events)?;
        let times = PassTimes { forward, head, backward: start.elapsed() - forward - head };
        Ok(BatchLoss { loss, replay, times })
    }

    fn forward(
        &self,
        batch: &Batch<'_>,
        lattice: &Lattice,
        rope: &BatchRope,
        keeps: Keeps,
        decisions: &mut Decisions,
    ) -> Result<Checkpoints, Error> {
        let GradientPass { ops, model, cache, options, .. } = self;
        let ops = *ops;
        ForwardPass { ops, model, cache, rope, lattice, options, batch, keeps }.run(decisions)
    }

    fn head<'b>(&'b self, batch: &'b Batch<'b>) -> HeadPass<'b> {
        let GradientOptions { loss_mean, logits_most, .. } = self.options;
        HeadPass { ops: self.ops, model: self.model, batch, loss_mean, logits_most }
    }

    fn check(&self, batch: &Batch<'_>) -> Result<(), Error> {
        batch.check(self.spec.vocab)?;
        let refuse = |what: &str, why| Err(Error::Unsupported { what: what.to_owned(), why });
        let most = self.ops.head_dim_most();
        if let Some(layer) = self.model.layers.iter().find(|layer| most < layer.dims.head_dim) {
            let what = format!("a model with heads of {} numbers", layer.dims.head_dim);
            return refuse(&what, "this device attends over narrower ones; tune on the CPU");
        }
        for slots in self.cache.lengths() {
            if *slots > TuneOps::SLOTS_MOST {
                return Err(Error::BadArgument {
                    argument: "kv_cache.cache_length",
                    value: slots.to_string(),
                    wanted: format!("at most {}", TuneOps::SLOTS_MOST),
                });
            }
            match self.cache.rule(*slots)? {
                rule if rule.rerotates_keys() => {
                    return refuse(self.cache.policy_name, "it rotates keys that are kept anew");
                }
                Rule::Recent(rule) if rule.text_segment.is_some() => {
                    return refuse(
                        self.cache.policy_name,
                        "what it protects is found in a text, and a batch has token ids alone",
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }
}
