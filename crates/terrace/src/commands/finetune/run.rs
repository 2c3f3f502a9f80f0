//! From arguments to a run.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};
use terrace_device::Device;
use terrace_kernels::Ops;
use terrace_model::LoadedModel;
use terrace_tune::run::{Generate, Progress, RunOptions, RunStates, Trainer};
use terrace_tune::{Training, TunedModel, WeightsAt};

use super::engine_samples::EngineSamples;
use super::finetune_args::{
    FinetuneArgs, FinetuneFullArgs, FinetuneLoraArgs, OffloadFullArgs, OffloadLoraArgs, Resume,
    Verbosity,
};
use super::kv_cache::{kv_cache, requested};
use super::plan::Plan;
use super::run_display::RunDisplay;
use super::saved_models::SavedModels;
use super::settings::settings;
use crate::open_model;

pub fn run_lora(args: &FinetuneLoraArgs) -> Result<()> {
    let training = Training::Lora(args.lora.options(args.common.seed));
    finetune(&args.common, training, WeightsAt::Device)
}

pub fn run_full(args: &FinetuneFullArgs) -> Result<()> {
    finetune(&args.common, Training::Full, WeightsAt::Device)
}

pub fn run_offload_lora(args: &OffloadLoraArgs) -> Result<()> {
    let training = Training::Lora(args.lora.options(args.common.seed));
    finetune(&args.common, training, WeightsAt::Host)
}

pub fn run_offload_full(args: &OffloadFullArgs) -> Result<()> {
    finetune(&args.common, Training::Full, WeightsAt::Host)
}

fn finetune(args: &FinetuneArgs, training: Training, weights_at: WeightsAt) -> Result<()> {
    let options = run_options(args);
    options.check()?;
    let loaded = open_model::load(&args.model, None, None)?;
    let source = whole_model_source(args, training)?;
    let requested = requested(&args.kv_cache)?;
    let cache = kv_cache(&requested, &loaded.spec)?;
    let ranks = args.devices.open(args.precision)?;
    let device = ranks[0].tuning()?.device();
    let LoadedModel { spec, tensors, text, name, .. } = loaded;
    let tokenizer = Arc::new(text.tokenizer);
    let template = text.chat_template.map(Arc::new);
    let data = args.data.open(Arc::clone(&tokenizer), template, args.head.learns_classes())?;
    let lengths = args.data.lengths(&*data)?;
    let split = args.data.split(&lengths, args.train.max_seq_length, args.seed)?;
    let gradients = args.grad.options(options.train.loss_mean, &device)?;
    let model = |ops: &Ops| -> Result<TunedModel> {
        let head = args.head.head(data.classes(), &tokenizer, spec.hidden, args.seed)?;
        Ok(TunedModel::new(&ops.tuning()?, &spec, &tensors, training, head, weights_at)?)
    };
    let (first, replicas) = models_of(&ranks, &device, model)?;
    let plan = Plan {
        args,
        spec: &spec,
        model: &first,
        device: &device,
        cache: &cache,
        gradients: &gradients,
        split: &split,
        lengths: &lengths,
        options: &options,
    };
    if args.dry_run || Verbosity::More <= args.verbose {
        println!("{plan}");
    }
    if args.dry_run {
        return Ok(());
    }
    let about = settings(std::env::args_os());
    let states = states(args, &about)?;
    let stop = stop_on_signals()?;
    let mut display = RunDisplay::new(&args.out_dir, args.logger_name, args.verbose, about, stop);
    let save = SavedModels { out_dir: &args.out_dir, spec: &spec, base_model: name, source };
    save.tidy()?;
    let samples = args.eval.samples();
    let mut samples =
        samples.map(|samples| EngineSamples::new(args, samples, training, requested, tokenizer));
    let mut trainer = Trainer {
        ranks: &ranks,
        model: first,
        replicas,
        spec: &spec,
        cache: &cache,
        gradients,
        optimiser: args.optimiser.options(),
        options,
        source: &*data,
        split: &split,
        lengths: &lengths,
        states,
        snapshots: args.snapshots.snapshots(&args.out_dir),
        save: &save,
        generate: samples.as_mut().map(|samples| samples as &mut dyn Generate),
        events: &mut display,
    };
    let ended = trainer.run(args.resume != Resume::No);
    display.finish()?;
    say_end(args, &ended?);
    Ok(())
}

fn say_end(args: &FinetuneArgs, progress: &Progress) {
    if Verbosity::Some <= args.verbose {
        println!("{} steps; see {}", progress.step, args.out_dir.join("report.html").display());
    }
}

/// The model of the first rank, and those of the others where each has memory of its own.
fn models_of(
    ranks: &[Ops],
    device: &Device,
    model: impl Fn(&Ops) -> Result<TunedModel>,
) -> Result<(TunedModel, Vec<TunedModel>)> {
    let (first, others) = ranks.split_first().expect("there is a rank");
    let replicas = match device {
        Device::Cpu => Vec::new(),
        Device::Cuda(_) => others.iter().map(&model).collect::<Result<_>>()?,
    };
    Ok((model(first)?, replicas))
}

fn run_options(args: &FinetuneArgs) -> RunOptions {
    let ranks = args.devices.devices;
    RunOptions {
        train: args.train.options(ranks, args.data.first_batches()),
        eval: args.eval.options(),
        seed: args.seed,
        ranks,
        yarn_rope: args.yarn_rope,
        rounds_weights: args.precision.rounds_weights(),
        recovers_memory: args.oom_error_recovery,
        states_kept: args.training_state_num,
    }
}

/// The folder that a whole model's other files come from.
fn whole_model_source(args: &FinetuneArgs, training: Training) -> Result<Option<&Path>> {
    let path = Path::new(&args.model);
    match training {
        Training::Lora(_) => Ok(None),
        Training::Full if path.is_dir() => Ok(Some(path)),
        Training::Full => bail!(
            "all weights of {} cannot be tuned: give the folder of a model with safetensors, or \
             tune an adapter with finetune_long_lora",
            args.model
        ),
    }
}

/// A folder that has a run already is not begun over by accident.
fn states(
    args: &FinetuneArgs,
    settings: &std::collections::BTreeMap<String, String>,
) -> Result<RunStates> {
    fs::create_dir_all(&args.out_dir)
        .with_context(|| format!("cannot make the folder {}", args.out_dir.display()))?;
    let states = RunStates::new(args.out_dir.join("training_state"), settings.clone());
    match (args.resume, states.steps().first()) {
        (Resume::No, Some(step)) => bail!(
            "{} has a run already, saved after step {step}: go on with --resume true, or choose \
             another --out_dir",
            args.out_dir.display()
        ),
        (Resume::Yes, None) => {
            bail!("{} has no state to go on from; leave --resume out", args.out_dir.display())
        }
        _ => Ok(states),
    }
}

/// The first signal ends the run after its step, with a saved state; the second ends it at once.
fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))?;
        register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}
