//! From arguments to a run.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};
use terrace_kernels::{CpuOptions, Ops};
use terrace_model::LoadedModel;
use terrace_tune::run::{RunOptions, RunStates, Trainer};
use terrace_tune::{Training, TunedModel};

use super::finetune_args::{
    FinetuneArgs, FinetuneFullArgs, FinetuneLoraArgs, OffloadFullArgs, OffloadLoraArgs, Resume,
    Verbosity,
};
use super::kv_cache::kv_cache;
use super::plan::Plan;
use super::run_display::RunDisplay;
use super::saved_models::SavedModels;
use super::settings::settings;
use crate::open_model;

pub fn run_lora(args: &FinetuneLoraArgs) -> Result<()> {
    let training = Training::Lora(args.lora.options(args.common.seed));
    finetune(&args.common, training, args.devices.devices)
}

pub fn run_full(args: &FinetuneFullArgs) -> Result<()> {
    finetune(&args.common, Training::Full, args.devices.devices)
}

pub fn run_offload_lora(args: &OffloadLoraArgs) -> Result<()> {
    check_device(args.device.device)?;
    finetune(&args.common, Training::Lora(args.lora.options(args.common.seed)), 1)
}

pub fn run_offload_full(args: &OffloadFullArgs) -> Result<()> {
    check_device(args.device.device)?;
    finetune(&args.common, Training::Full, 1)
}

fn check_device(device: usize) -> Result<()> {
    match device {
        0 => Ok(()),
        _ => bail!("--device is {device}, and models are tuned on the CPU, which is number 0"),
    }
}

fn finetune(args: &FinetuneArgs, training: Training, ranks: usize) -> Result<()> {
    let options = run_options(args, ranks);
    options.check()?;
    let loaded = open_model::load(&args.model, None, None)?;
    let source = whole_model_source(args, training)?;
    let cache = kv_cache(&args.kv_cache, &loaded.spec)?;
    let ranks = ranks_of(args, ranks)?;
    let LoadedModel { spec, tensors, text, name, .. } = loaded;
    let tokenizer = Arc::new(text.tokenizer);
    let template = text.chat_template.map(Arc::new);
    let data = args.data.open(Arc::clone(&tokenizer), template, args.head.learns_classes())?;
    let lengths = args.data.lengths(&*data)?;
    let split = args.data.split(&lengths, args.train.max_seq_length, args.seed)?;
    let head = args.head.head(data.classes(), &tokenizer, spec.hidden, args.seed)?;
    let model = TunedModel::new(&ranks[0].tuning()?, &spec, &tensors, training, head)?;
    let gradients = args.grad.options(options.train.loss_mean);
    let plan = Plan {
        args,
        spec: &spec,
        model: &model,
        cache: &cache,
        gradients: &gradients,
        split: &split,
        lengths: &lengths,
        options: &options,
    };
    if args.dry_run {
        println!("{plan}");
        return Ok(());
    }
    if Verbosity::More <= args.verbose {
        println!("{plan}");
    }
    let about = settings(std::env::args_os());
    let states = states(args, &about)?;
    let stop = stop_on_signals()?;
    let mut display = RunDisplay::new(&args.out_dir, args.logger_name, args.verbose, about, stop);
    let base_model = name;
    let save = SavedModels { out_dir: &args.out_dir, spec: &spec, base_model, source };
    save.tidy()?;
    let mut trainer = Trainer {
        ranks: &ranks,
        model,
        spec: &spec,
        cache: &cache,
        gradients,
        optimiser: args.optimiser.options(),
        options,
        source: &*data,
        split: &split,
        lengths: &lengths,
        states,
        save: &save,
        events: &mut display,
    };
    let ended = trainer.run(args.resume != Resume::No);
    display.finish()?;
    let progress = ended?;
    if Verbosity::Some <= args.verbose {
        println!("{} steps; see {}", progress.step, args.out_dir.join("report.html").display());
    }
    Ok(())
}

fn run_options(args: &FinetuneArgs, ranks: usize) -> RunOptions {
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

/// The cores are shared out among ranks.
fn ranks_of(args: &FinetuneArgs, ranks: usize) -> Result<Vec<Ops>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = (args.threads.unwrap_or(cores) / ranks).max(1);
    let options = CpuOptions { threads, level: None, compute: args.precision.compute() };
    (0..ranks).map(|_| Ok(Ops::cpu(options)?)).collect()
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
