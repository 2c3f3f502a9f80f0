//! A model that is trained for measurement: the same batch of random tokens, step after step.

use std::time::Instant;

use anyhow::Result;
use terrace_cache::policy::KvCacheSpec;
use terrace_kernels::{OpClock, TuneOps};
use terrace_model::{DecoderSpec, DecoderTensors};
use terrace_tune::head::Head;
use terrace_tune::optimiser::{Optimiser, OptimiserKind, OptimiserOptions, OptimiserStep};
use terrace_tune::{
    Batch, GradientOptions, GradientPass, Gradients, Training, TunedModel, WeightsAt,
};

use super::batch_shape::BatchShape;
use super::report::StepRow;
use crate::commands::bench::random_prompts::RandomPrompts;

pub struct TrainingSetup<'a> {
    pub ops: TuneOps<'a>,
    /// That of the ops.
    pub clock: &'a OpClock,
    pub spec: &'a DecoderSpec,
    pub cache: &'a KvCacheSpec,
    pub options: GradientOptions,
    pub shape: BatchShape,
    pub weights_at: WeightsAt,
}

pub struct MeasuredTraining<'a> {
    setup: TrainingSetup<'a>,
    model: TunedModel,
    gradients: Gradients,
    optimiser: Box<dyn Optimiser>,
    learning_rate: f64,
    ids: Vec<i32>,
    targets: Vec<i32>,
    steps: u64,
}

impl<'a> MeasuredTraining<'a> {
    pub fn new(
        setup: TrainingSetup<'a>,
        tensors: &DecoderTensors,
        training: Training,
    ) -> Result<Self> {
        let TrainingSetup { ops, spec, weights_at, .. } = setup;
        let model = TunedModel::new(&ops, spec, tensors, training, Head::NextToken, weights_at)?;
        let options = OptimiserOptions::new(OptimiserKind::AdamW);
        let [seqs, tokens] = setup.shape;
        let texts = RandomPrompts::new(1, setup.spec.vocab).batch(seqs, tokens + 1);
        let numbers = |skipped: usize| {
            let rows = texts.iter().flat_map(|text| &text[skipped..skipped + tokens]);
            rows.map(|id| *id as i32).collect()
        };
        Ok(MeasuredTraining {
            gradients: model.gradients(&setup.ops)?,
            optimiser: options.build(model.parameters())?,
            learning_rate: options.learning_rate(),
            ids: numbers(0),
            targets: numbers(1),
            steps: 0,
            setup,
            model,
        })
    }

    /// Numbers that are trained.
    pub fn trained_numbers(&self) -> usize {
        let counts =
            self.model.parameters().iter().map(|info| info.shape.iter().product::<usize>());
        counts.sum()
    }

    pub fn step(&mut self) -> Result<StepRow> {
        let TrainingSetup { ops, clock, spec, cache, options, shape: [seqs, _], .. } = self.setup;
        clock.take();
        let start = Instant::now();
        self.gradients.clear(&ops);
        let batch = Batch { seqs, ids: &self.ids, targets: &self.targets };
        let pass = GradientPass { ops, model: &self.model, spec, cache, options };
        let found = pass.run(&batch, &mut self.gradients)?;
        let before_change = start.elapsed();
        self.steps += 1;
        let step = OptimiserStep { number: self.steps, learning_rate: self.learning_rate };
        let (gradients, optimiser) = (&self.gradients, &mut self.optimiser);
        self.model.change(&ops, &mut |id, values| {
            optimiser.change(id.index(), values, gradients.numbers(id), step);
        })?;
        let step = start.elapsed();
        let seconds = |(op, time): (&'static str, std::time::Duration)| (op, time.as_secs_f64());
        Ok(StepRow {
            loss: found.loss,
            step_s: step.as_secs_f64(),
            forward_s: found.times.forward.as_secs_f64(),
            head_s: found.times.head.as_secs_f64(),
            backward_s: found.times.backward.as_secs_f64(),
            optimiser_s: (step - before_change).as_secs_f64(),
            ops_s: clock.take().into_iter().map(seconds).collect(),
        })
    }
}
