//! Runs of training: what they learn, that ranks do not matter, and that they go on exactly.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use terrace_kernels::random::SplitMix;
use terrace_kernels::{Compute, CpuOptions, Ops};
use terrace_tune::data::{Case, CaseSource, DataError, FirstBatches, Split};
use terrace_tune::head::Head;
use terrace_tune::optimiser::{OptimiserKind, OptimiserOptions};
use terrace_tune::record::{StepRecord, ValidationRecord};
use terrace_tune::run::{
    EarlyStopping, EvalOptions, Progress, RunEvents, RunOptions, RunStates, SaveModel, SavedAt,
    TrainOptions, Trainer, WarmUp,
};
use terrace_tune::{Error, LoraKind, LoraOptions, LoraTargets, LossMean, Training, TunedModel};

use crate::small_model::{Shape, SmallModel};

const SHAPE: Shape = Shape {
    layers: 2,
    heads: 2,
    kv_heads: 1,
    head_dim: 4,
    hidden: 12,
    biased: false,
    head_norms: false,
    tied: true,
};
const TOKENS: usize = 24;

/// Numbers that count up in steps of one: after a few of them the next is known.
struct Counting;

impl CaseSource for Counting {
    fn len(&self) -> usize {
        30
    }

    fn case(&self, number: usize) -> Result<Case, DataError> {
        let start = SplitMix::new(number as u64).below(20) as u32;
        let length = TOKENS as u32 - (number % 5) as u32;
        Case::of_text((start..start + length).map(|token| token % 20).collect())
    }
}

/// Everything that was reported.
#[derive(Default)]
struct Reported {
    begun: Option<(Progress, u64)>,
    steps: Vec<StepRecord>,
    validations: Vec<ValidationRecord>,
    notes: Vec<String>,
    validated_batches: usize,
    /// Steps after which the user asks for an end.
    stops_after: Option<u64>,
}

impl RunEvents for Reported {
    fn begin(&mut self, progress: &Progress, steps: u64) -> Result<(), Error> {
        self.begun = Some((*progress, steps));
        Ok(())
    }

    fn step(&mut self, record: &StepRecord) -> Result<(), Error> {
        self.steps.push(*record);
        Ok(())
    }

    fn validation_begins(&mut self, _batches: usize) {}

    fn validation_batch(&mut self) {
        self.validated_batches += 1;
    }

    fn validation(&mut self, record: &ValidationRecord) -> Result<(), Error> {
        self.validations.push(*record);
        Ok(())
    }

    fn saved(&mut self, _path: &Path) {}

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    fn is_asked_to_stop(&self) -> bool {
        let done = self.steps.last().map_or(0, |step| step.step);
        self.stops_after.is_some_and(|most| most <= done)
    }
}

/// Counts what would be saved.
#[derive(Default)]
struct Saves {
    last: Cell<usize>,
    steps: Cell<usize>,
    best: Cell<usize>,
}

impl SaveModel for Saves {
    fn save(&self, _: &mut TunedModel, _: &Ops, at: SavedAt) -> Result<PathBuf, Error> {
        let count = match at {
            SavedAt::Last => &self.last,
            SavedAt::Step(_) => &self.steps,
            SavedAt::Best => &self.best,
            SavedAt::Sampled => unreachable!("nothing is generated"),
        };
        count.set(count.get() + 1);
        Ok(PathBuf::from("nowhere"))
    }
}

fn run_options() -> RunOptions {
    RunOptions {
        train: TrainOptions {
            micro_batch_size: 2,
            global_batch_size: 4,
            epochs: 3,
            steps_most: None,
            tokens_most: None,
            time_most: None,
            warm_up: WarmUp::Steps(2),
            save_interval: Some(3),
            log_interval: 1,
            gradient_norm_most: Some(1.0),
            loss_mean: LossMean::Targets,
            first_batches: FirstBatches::Any,
            early_stopping: None,
        },
        eval: EvalOptions {
            interval: 4,
            iters_most: 2,
            initial: true,
            last: true,
            micro_batch_size: Some(3),
        },
        seed: 11,
        ranks: 1,
        yarn_rope: false,
        rounds_weights: false,
        recovers_memory: true,
        states_kept: 2,
    }
}

fn split() -> Split {
    Split { train: (0..22).collect(), validation: (22..30).collect(), test: Vec::new() }
}

struct Ran {
    reported: Reported,
    saves: Saves,
    end: Progress,
    parameters: Vec<Vec<f32>>,
    states: Vec<u64>,
}

/// A run in a folder; gone on from there if there is a state.
fn run(folder: &Path, options: RunOptions, stops_after: Option<u64>) -> Result<Ran, Error> {
    let ranks: Vec<Ops> = (0..options.ranks)
        .map(|_| CpuOptions { threads: 1, level: None, compute: Compute::F32 })
        .map(|options| Ops::cpu(options).expect("a small case"))
        .collect();
    let small = SmallModel::new(SHAPE, TOKENS, 1);
    let tune = ranks[0].tuning().expect("a small case");
    let lora = LoraOptions {
        rank: 4,
        alpha: 8.0,
        kind: LoraKind::Default,
        targets: LoraTargets { head: false, ..LoraTargets::ALL },
        dropout: 0.05,
        seed: 3,
    };
    let model = small.try_headed(&tune, Training::Lora(lora), Head::NextToken)?;
    let cache = small.cache("h2o-default", 12, 4);
    let lengths: Vec<usize> =
        (0..30).map(|case| Counting.case(case).expect("a case").inputs().len()).collect();
    let mut optimiser = OptimiserOptions::new(OptimiserKind::AdamW);
    optimiser.learning_rate = Some(2e-2);
    let settings = BTreeMap::from([("seed".to_owned(), options.seed.to_string())]);
    let mut reported = Reported { stops_after, ..Reported::default() };
    let saves = Saves::default();
    let mut gradients = crate::small_model::options(1, 1.0);
    gradients.loss_mean = options.train.loss_mean;
    let split = split();
    let mut trainer = Trainer {
        ranks: &ranks,
        model,
        replicas: Vec::new(),
        spec: &small.spec,
        cache: &cache,
        gradients,
        optimiser,
        options,
        source: &Counting,
        split: &split,
        lengths: &lengths,
        states: RunStates::new(folder.join("training_state"), settings),
        snapshots: None,
        save: &saves,
        generate: None,
        events: &mut reported,
    };
    let end = trainer.run(true)?;
    let mut parameters = Vec::new();
    trainer
        .model
        .change(&tune, &mut |_, numbers| parameters.push(numbers.to_vec()))
        .expect("the host's arrays");
    let states = trainer.states.steps();
    Ok(Ran { reported, saves, end, parameters, states })
}

#[test]
fn a_run_learns_validates_and_saves() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), run_options(), None).unwrap();
    // 22 cases in micro-batches of 2, two of them a step, an odd one at the end of each epoch.
    assert_eq!(ran.reported.begun.expect("it began").1, 18);
    assert_eq!((ran.end.step, ran.end.epoch), (18, 3));
    assert_eq!(ran.reported.steps.len(), 18);
    let losses: Vec<f64> = ran.reported.steps.iter().map(|step| step.loss).collect();
    assert!(losses[17] < 0.6 * losses[0], "{losses:?}");
    let validated: Vec<u64> = ran.reported.validations.iter().map(|it| it.step).collect();
    assert_eq!(validated, [0, 4, 8, 12, 16, 18]);
    // Two batches of 8 cases, three at a time: the longest, which is not full, and another.
    assert!(ran.reported.validations.iter().all(|it| it.cases == 5));
    assert!(ran.reported.validations[5].loss < 0.6 * ran.reported.validations[0].loss);
    let saves = &ran.saves;
    assert_eq!((saves.steps.get(), saves.last.get()), (6, 1));
    assert!(0 < saves.best.get());
    assert_eq!(ran.states, [18, 15]);
    assert_eq!(ran.reported.steps[17].epoch, 3.0);
}

#[test]
fn ranks_do_not_change_what_is_learnt() {
    let one = run(tempfile::tempdir().unwrap().path(), run_options(), None).unwrap();
    for ranks in [2, 4] {
        let mut options = run_options();
        options.ranks = ranks;
        options.train.micro_batch_size = 1;
        options.train.loss_mean = LossMean::Sequences;
        let mut alone = options.clone();
        alone.ranks = 1;
        let many = run(tempfile::tempdir().unwrap().path(), options, None).unwrap();
        let alone = run(tempfile::tempdir().unwrap().path(), alone, None).unwrap();
        for (many, alone) in many.reported.steps.iter().zip(&alone.reported.steps) {
            let far = (many.loss - alone.loss).abs();
            assert!(far <= 1e-5, "{ranks} ranks, step {}: {far}", many.step);
        }
        assert_ne!(one.reported.steps[5].loss, many.reported.steps[5].loss, "other batches");
    }
}

#[test]
fn a_run_that_was_stopped_goes_on_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let whole = run(folder.path(), run_options(), None).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut losses = Vec::new();
    for stops_after in [5, 6, 13] {
        let part = run(folder.path(), run_options(), Some(stops_after)).unwrap();
        assert_eq!((part.end.step, part.saves.last.get()), (stops_after, 0));
        losses.extend(part.reported.steps);
    }
    let last = run(folder.path(), run_options(), None).unwrap();
    assert_eq!(last.reported.begun.expect("it began").0.step, 13);
    losses.extend(last.reported.steps.clone());
    let numbers = |steps: &[StepRecord]| {
        let number = |it: &StepRecord| (it.step, it.loss, it.gradient_norm, it.learning_rate);
        steps.iter().map(number).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&losses), numbers(&whole.reported.steps));
    assert_eq!(last.parameters, whole.parameters);
    let validated = |ran: &Ran| ran.reported.validations.last().expect("the last one").loss;
    assert_eq!(validated(&last), validated(&whole));
}

/// A process that ends at once leaves the states that were saved.
#[test]
fn a_run_that_was_killed_goes_on_from_its_last_state() {
    let folder = tempfile::tempdir().unwrap();
    let whole = run(folder.path(), run_options(), None).unwrap();
    let states = folder.path().join("training_state");
    std::fs::remove_file(states.join("state-00000018.safetensors")).unwrap();
    let resumed = run(folder.path(), run_options(), None).unwrap();
    assert_eq!(resumed.reported.begun.expect("it began").0.step, 15);
    assert_eq!(resumed.parameters, whole.parameters);
    let other = RunOptions { seed: 12, ..run_options() };
    let error = run(folder.path(), other, None).err().expect("another seed").to_string();
    assert!(error.contains("seed 11, and has 12 now"), "{error}");
}

#[test]
fn limits_end_a_run_and_say_so() {
    let ends = |change: fn(&mut RunOptions)| {
        let mut options = run_options();
        change(&mut options);
        let ran = run(tempfile::tempdir().unwrap().path(), options, None).unwrap();
        (ran.end.step, ran.reported.notes.join(", "))
    };
    assert_eq!(ends(|options| options.train.steps_most = Some(7)), (7, String::new()));
    let (step, why) = ends(|options| options.train.tokens_most = Some(300));
    assert!((3..=4).contains(&step) && why.contains("train.max_tokens"), "{step}: {why}");
    let (step, why) = ends(|options| {
        options.train.early_stopping = Some(EarlyStopping { patience: 0 });
        // Nothing is learnt, so nothing gets better.
        options.train.warm_up = WarmUp::Steps(1 << 40);
    });
    assert!(step < 18 && why.contains("early stopping"), "{step}: {why}");
}

#[test]
fn two_cases_show_early_what_breaks() {
    let mut options = run_options();
    options.eval.initial = false;
    options.eval.last = false;
    options.eval.interval = 100;
    let ran = run(tempfile::tempdir().unwrap().path(), options, None).unwrap();
    assert!(ran.reported.validations.is_empty());
    assert_eq!(ran.reported.validated_batches, 1);
}
