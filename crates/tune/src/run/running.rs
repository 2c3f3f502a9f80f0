//! The loop of a run.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use half::bf16;
use terrace_kernels::RankSums;
use terrace_kernels::random::SplitMix;

use super::batch_stream::BatchStream;
use super::generate::Question;
use super::memory_peak::memory_peak_bytes;
use super::progress::Progress;
use super::rank_gradients::{Passes, SeededBatch};
use super::replicas::{RankModels, update_replicas};
use super::run_arrays::{collect_arrays, restore_arrays};
use super::run_options::TrainOptions;
use super::save_model::SavedAt;
use super::trainer::Trainer;
use super::validation::{Validation, ValidationLoss};
use crate::data::{BatchOrder, Case, CaseBatch, CaseSource, DataError, FirstBatches};
use crate::error::Error;
use crate::gradient_options::GradientOptions;
use crate::loss_factors::LossMean;
use crate::model::Gradients;
use crate::optimiser::{Optimiser, OptimiserStep, Schedule, clip_gradients};
use crate::record::{StepRecord, ValidationRecord};

impl Trainer<'_> {
    /// To the end, from the newest state if `resume` and there is one. Gives how far it came.
    pub fn run(&mut self, resume: bool) -> Result<Progress, Error> {
        self.options.check()?;
        let mut running = Running::new(self)?;
        if resume {
            running.resume()?;
        }
        running.run()
    }
}

impl<'a> Trainer<'a> {
    /// Those of a step, which count from 1 on.
    fn passes(&self, options: GradientOptions, step: u64) -> Passes<'_> {
        let Trainer { model, replicas, spec, cache, options: run, snapshots, .. } = self;
        let models = RankModels { first: model, others: replicas };
        let snapshots = snapshots.as_ref().map(|snapshots| (snapshots, step));
        Passes { models, spec, cache, options, yarn_rope: run.yarn_rope, snapshots }
    }

    /// After this the pass is run again, if the error was want of memory and less can be taken.
    fn take_less_memory(&mut self, error: Error) -> Result<(), Error> {
        let smaller = self.gradients.smaller().filter(|_| self.options.recovers_memory);
        let Some(smaller) = smaller.filter(|_| error.is_out_of_memory()) else {
            return Err(error);
        };
        self.gradients = smaller;
        let times = smaller.lattice.cell_length.multiplier();
        self.events.note(&format!(
            "{error}; once more, with grad.chunks_per_cell_multiplier {times} and \
             grad.layers_per_cell {}",
            smaller.lattice.layers_per_cell
        ));
        Ok(())
    }
}

/// A run under way.
pub(super) struct Running<'t, 'a> {
    trainer: &'t mut Trainer<'a>,
    progress: Progress,
    stream: BatchStream,
    schedule: Schedule,
    optimiser: Box<dyn Optimiser>,
    gradients: Vec<Gradients>,
    /// Of ranks on GPUs that add up gradients among themselves.
    sums: Option<RankSums>,
    validation: Vec<Vec<usize>>,
    /// The step of the newest state.
    saved: Option<u64>,
}

impl<'t, 'a> Running<'t, 'a> {
    pub fn new(trainer: &'t mut Trainer<'a>) -> Result<Self, Error> {
        let Trainer { model, options, split, lengths, .. } = &*trainer;
        let TrainOptions { micro_batch_size, epochs, first_batches, .. } = options.train;
        let order =
            BatchOrder::new(&split.train, lengths, micro_batch_size, first_batches, options.seed);
        let stream = BatchStream::new(order, epochs);
        let steps = stream.steps(options.micro_batches());
        let steps = options.train.steps_most.map_or(steps, |most| steps.min(most));
        let schedule = options.train.warm_up.schedule(steps);
        let parameters = model.parameters();
        let optimiser = trainer.optimiser.build(parameters)?;
        let models = RankModels { first: model, others: &trainer.replicas };
        let ranks = trainer.ranks.iter().enumerate();
        let gradients = ranks
            .map(|(rank, ops)| models.of(rank).gradients(&ops.tuning()?))
            .collect::<Result<_, Error>>()?;
        let sums = match trainer.ranks {
            [_] => None,
            ranks => RankSums::open(ranks, &[])?,
        };
        let of_validation = options.eval.micro_batch_size.unwrap_or(micro_batch_size);
        let order = BatchOrder::new(
            &split.validation,
            lengths,
            of_validation,
            FirstBatches::Longest,
            options.seed,
        );
        let mut validation = order.epoch(0);
        validation.truncate(options.eval.iters_most);
        Ok(Running {
            trainer,
            progress: Progress::default(),
            stream,
            schedule,
            optimiser,
            gradients,
            sums,
            validation,
            saved: None,
        })
    }

    /// Goes on from the newest state, if there is one.
    pub fn resume(&mut self) -> Result<(), Error> {
        let Trainer { model, replicas, ranks, states, .. } = &mut *self.trainer;
        let Some((progress, saved)) = states.newest()? else { return Ok(()) };
        restore_arrays(saved, model, &ranks[0].tuning()?, &mut *self.optimiser)?
            .map_err(|problem| Error::StateArrays { folder: states.folder().into(), problem })?;
        update_replicas(model, replicas, ranks)?;
        self.saved = Some(progress.step);
        self.progress = progress;
        Ok(())
    }

    pub fn run(mut self) -> Result<Progress, Error> {
        let steps = self.schedule.steps;
        self.trainer.events.begin(&self.progress, steps)?;
        if self.progress.step == 0 {
            self.first_validation()?;
        }
        while self.progress.step < steps && !self.is_over() {
            if !self.step()? {
                break;
            }
            let (train, eval) = (&self.trainer.options.train, &self.trainer.options.eval);
            let due = |interval: u64| self.progress.step.is_multiple_of(interval);
            let (validates, saves) = (due(eval.interval), train.save_interval.is_some_and(due));
            let is_last = self.progress.step == steps;
            if validates && !(is_last && self.trainer.options.eval.last) {
                self.validate()?;
            }
            if saves {
                self.save()?;
            }
        }
        if self.trainer.options.eval.last && !self.trainer.events.is_asked_to_stop() {
            self.validate()?;
        }
        if self.saved != Some(self.progress.step) {
            self.save_state()?;
        }
        if !self.trainer.events.is_asked_to_stop() {
            self.save_model(SavedAt::Last)?;
        }
        Ok(self.progress)
    }

    /// Whether something other than the number of steps ends the run.
    fn is_over(&mut self) -> bool {
        let TrainOptions { tokens_most, time_most, early_stopping, .. } =
            self.trainer.options.train;
        let time = Duration::from_secs_f64(self.progress.seconds);
        let why = if self.trainer.events.is_asked_to_stop() {
            "stopped on request"
        } else if tokens_most.is_some_and(|most| most <= self.progress.tokens) {
            "train.max_tokens is reached"
        } else if time_most.is_some_and(|most| most <= time) {
            "train.max_time is reached"
        } else if self.progress.validations.is_enough(early_stopping) {
            "validation has got no better: early stopping"
        } else {
            return false;
        };
        self.trainer.events.note(why);
        true
    }

    /// Whether there was anything left to learn.
    fn step(&mut self) -> Result<bool, Error> {
        let start = Instant::now();
        let mut after = self.progress;
        let trainer = &mut *self.trainer;
        let numbers = self.stream.next_step(&mut after, trainer.options.micro_batches());
        if numbers.is_empty() {
            return Ok(false);
        }
        let seeds = SplitMix::new(trainer.options.seed ^ after.step.rotate_left(32));
        let batches = read_batches(trainer.source, &numbers, seeds)?;
        let step = loop {
            let passes = trainer.passes(trainer.gradients, after.step + 1);
            let sums = self.sums.as_mut();
            match passes.step(trainer.ranks, sums, &mut self.gradients, &batches) {
                Err(error) => trainer.take_less_memory(error)?,
                Ok(step) => break step,
            }
        };
        let gradients = &mut self.gradients[0];
        let most = trainer.options.train.gradient_norm_most.unwrap_or(f64::INFINITY);
        let gradient_norm = clip_gradients(gradients, trainer.model.parameters(), most);
        let factor = self.schedule.factor(after.step);
        after.step += 1;
        let learning_rate = trainer.optimiser.learning_rate() * factor;
        let at = OptimiserStep { number: after.step, learning_rate };
        let optimiser = &mut self.optimiser;
        let rounds_weights = trainer.options.rounds_weights;
        trainer.model.change(&trainer.ranks[0].tuning()?, &mut |id, numbers| {
            optimiser.change(id.index(), numbers, gradients.numbers(id), at);
            if rounds_weights {
                numbers.iter_mut().for_each(|number| *number = bf16::from_f32(*number).to_f32());
            }
        })?;
        update_replicas(&mut trainer.model, &mut trainer.replicas, trainer.ranks)?;
        let seconds = start.elapsed().as_secs_f64();
        after.tokens += step.tokens;
        after.seconds += seconds;
        self.progress = after;
        if !step.loss.is_finite() || !gradient_norm.is_finite() {
            return Err(Error::Diverged { step: after.step, loss: step.loss, gradient_norm });
        }
        if after.step.is_multiple_of(trainer.options.train.log_interval) {
            trainer.events.step(&StepRecord {
                step: after.step,
                epoch: self.stream.epochs_done(&after),
                loss: step.loss,
                learning_rate,
                gradient_norm,
                tokens: step.tokens,
                seconds,
                peak_memory_bytes: memory_peak_bytes(&trainer.ranks[0].tuning()?),
            })?;
        }
        Ok(true)
    }

    /// All of it, or two cases that show what breaks.
    fn first_validation(&mut self) -> Result<(), Error> {
        if self.trainer.options.eval.initial {
            return self.validate();
        }
        let cases: Vec<usize> = self.validation.concat().into_iter().take(2).collect();
        if !cases.is_empty() {
            self.loss_of(&[cases])?;
        }
        Ok(())
    }

    fn validate(&mut self) -> Result<(), Error> {
        if self.validation.is_empty() {
            return Ok(());
        }
        let start = Instant::now();
        let batches = self.validation.clone();
        let ValidationLoss { loss, cases } = self.loss_of(&batches)?;
        let metric = self.metric()?;
        let seconds = start.elapsed().as_secs_f64();
        let step = self.progress.step;
        let cases = cases as u64;
        let record = ValidationRecord { step, loss, metric, cases, seconds };
        self.trainer.events.validation(&record)?;
        if self.progress.validations.note(loss) && 0 < step {
            self.save_model(SavedAt::Best)?;
        }
        Ok(())
    }

    /// The share of validation cases whose generated answers are right, if any are generated.
    fn metric(&mut self) -> Result<Option<f64>, Error> {
        let Trainer { generate, source, .. } = &mut *self.trainer;
        let Some(generate) = generate else { return Ok(None) };
        let cases = self.validation.iter().flatten().map(|number| source.case(*number));
        let question = |case: Result<Case, DataError>| Question::of(&case?, &**generate);
        let questions = cases.map(question).collect::<Result<Vec<_>, Error>>()?;
        let saved = self.write_model(SavedAt::Sampled)?;
        let prompts: Vec<_> = questions.iter().map(|question| question.prompt.clone()).collect();
        let generate = self.trainer.generate.as_mut().expect("found above");
        let outputs = generate.generate(&saved, &prompts);
        fs::remove_dir_all(&saved).map_err(|error| Error::Write { path: saved, error })?;
        let outputs = outputs?;
        let answered = questions.iter().zip(&outputs).filter(|(it, out)| it.is_answered_by(out));
        Ok(Some(answered.count() as f64 / questions.len().max(1) as f64))
    }

    fn loss_of(&mut self, batches: &[Vec<usize>]) -> Result<ValidationLoss, Error> {
        let trainer = &mut *self.trainer;
        loop {
            trainer.events.validation_begins(batches.len());
            // Of evaluation, each case counts alike.
            let options = GradientOptions { loss_mean: LossMean::Sequences, ..trainer.gradients };
            let Trainer { ranks, model, spec, cache, options: run, source, events, .. } = trainer;
            let models = RankModels { first: model, others: &[] };
            let yarn_rope = run.yarn_rope;
            let passes = Passes { models, spec, cache, options, yarn_rope, snapshots: None };
            let validation = Validation { source: *source, batches };
            match validation.run(&passes, &ranks[0], &mut || events.validation_batch()) {
                Err(error) => trainer.take_less_memory(error)?,
                found => return found,
            }
        }
    }

    fn save(&mut self) -> Result<(), Error> {
        self.save_model(SavedAt::Step(self.progress.step))?;
        self.save_state()
    }

    fn save_model(&mut self, at: SavedAt) -> Result<(), Error> {
        let path = self.write_model(at)?;
        self.trainer.events.saved(&path);
        Ok(())
    }

    fn write_model(&mut self, at: SavedAt) -> Result<PathBuf, Error> {
        let Trainer { save, model, ranks, .. } = &mut *self.trainer;
        save.save(model, &ranks[0], at)
    }

    fn save_state(&mut self) -> Result<(), Error> {
        let Trainer { model, ranks, states, options, .. } = &mut *self.trainer;
        let arrays = collect_arrays(model, &ranks[0].tuning()?, &mut *self.optimiser)?;
        states.save(&self.progress, &arrays, options.states_kept)?;
        self.saved = Some(self.progress.step);
        Ok(())
    }
}

/// `[micro-batches]`, from the numbers of their cases.
fn read_batches(
    source: &dyn CaseSource,
    numbers: &[Vec<usize>],
    mut seeds: SplitMix,
) -> Result<Vec<SeededBatch>, Error> {
    let read = numbers.iter().map(|numbers| {
        let cases = numbers.iter().map(|number| source.case(*number));
        Ok((CaseBatch::of(&cases.collect::<Result<Vec<_>, _>>()?), seeds.bits()))
    });
    read.collect()
}
