//! `terrace bench llm`: tokens per second of a language model, without text and network.
//!
//! Each run measures three things. Reading: requests with prompts of their own random tokens, one
//! new token each, from their submission to the last token. Writing: the same prompts again,
//! which are now known by content and share their pages, so that all requests stand at the
//! prompt's length when decoding starts; counted while all of them decode. Both at once: one of
//! the requests reads new prompts, one after the other, while the others write again. Choosing
//! tokens and bringing them to the host is in all.

use anyhow::{Context, Result, bail};
use clap::Args;
use terrace_engine::{EngineHandle, EngineSetup};

use super::batch_fits::check_batch_fits;
use super::bench_options::BenchOptions;
use super::decode_window::{DecodeWindow, last_first_token};
use super::engine_run::{EngineRun, MeasuredEngine};
use super::llm_report::{LlmReport, Row};
use super::measured_model::MeasuredModel;
use super::mixed_run::{MixedRates, MixedRun};
use super::random_prompts::RandomPrompts;
use super::spread::Spread;
use super::step_roofline::StepRoofline;
use crate::commands::print_report::print_report;
use crate::options::{EngineDefaults, start_quiet_log};
use crate::progress;

/// Measure the prefill and decode throughput of a language model, in tokens a second.
///
/// For each batch size, that many requests with random prompts run at once in this process: first
/// prefill, then decode, and then one of them prefills new prompts while the others decode (mixed).
/// The best of --repeat runs is shown, since other programs only ever slow a run down, with the
/// median and the least beside it: if they lie far apart, the machine was busy. The engine is sized
/// for what is measured, unless you size it.
#[derive(Args, Debug)]
#[command(after_long_help = "Reading the table:
  prefill tok/s  prompt tokens, from the submission until every request has its first token
  decode tok/s   output tokens of all requests while all decode, from prompts in the prefix cache
  step           time of one decode step: one output token for each request
  roofline       what the step would take if reading weights, keys and values at --bandwidth
                 were all, and how much of the step that is
  mixed          prefill tok/s of one request, decode tok/s of the others meanwhile, and their ITL
                 (inter-token latency)

Examples:
  terrace bench llm
  terrace bench llm --batch 1,4,16 --prompt-tokens 1024 --new-tokens 64
  terrace bench llm --shape llama3-8b --random-weights --dtype bf16 --bandwidth 4400
  terrace bench llm --json > bench.json")]
pub struct LlmArgs {
    /// Requests that run at once; several sizes are measured one after the other.
    #[arg(long, value_name = "REQUESTS", value_delimiter = ',', default_value = "1,8")]
    batch: Vec<usize>,

    /// Tokens of each prompt.
    #[arg(long, value_name = "TOKENS", default_value_t = 512)]
    prompt_tokens: usize,

    /// Tokens of each output.
    #[arg(long, value_name = "TOKENS", default_value_t = 128)]
    new_tokens: usize,

    /// Runs of each size, after one that is not counted.
    #[arg(long, value_name = "RUNS", default_value_t = 3)]
    repeat: usize,

    /// How fast the device reads its memory, in GB/s: shows the roofline of each step.
    #[arg(long, value_name = "GB_PER_SECOND")]
    bandwidth: Option<f64>,

    /// Skip the mixed run, where one request prefills while the others decode.
    #[arg(long)]
    no_mixed: bool,

    #[command(flatten)]
    measured: BenchOptions,
}

pub fn run(args: &LlmArgs) -> Result<()> {
    start_quiet_log();
    args.check()?;
    print_report(&measure(args)?, args.measured.json)
}

impl LlmArgs {
    fn check(&self) -> Result<()> {
        let sizes = [self.prompt_tokens, self.repeat, self.largest_batch()];
        if self.new_tokens < 2 || sizes.contains(&0) || self.batch.contains(&0) {
            bail!("give at least 2 new tokens, 1 prompt token, 1 run and batches of 1 or more");
        }
        if self.bandwidth.is_some_and(|bandwidth| bandwidth.is_nan() || bandwidth <= 0.0) {
            bail!("--bandwidth must be above 0");
        }
        Ok(())
    }

    fn largest_batch(&self) -> usize {
        self.batch.iter().copied().max().unwrap_or(0)
    }
}

fn measure(args: &LlmArgs) -> Result<LlmReport> {
    let (prompt_tokens, new_tokens) = (args.prompt_tokens, args.new_tokens);
    let page_tokens = args.measured.engine.page_tokens();
    let defaults =
        EngineDefaults::measuring(args.largest_batch(), prompt_tokens, new_tokens, page_tokens);
    // Wrong options are reported before a model is fetched.
    let config = args.measured.engine.inference_config(defaults)?;
    let model = MeasuredModel::open(&args.measured, prompt_tokens + new_tokens)?;
    let MeasuredModel { name, spec, weights, .. } = model;
    let bar = progress::layers("placing", spec.layers.len());
    let setup = EngineSetup::new(spec.clone(), weights, &config, || bar.inc(1));
    bar.finish_and_clear();
    let EngineSetup { engine, memory, caches, .. } = setup?;
    let tokens = prompt_tokens + new_tokens;
    check_batch_fits(&memory, config.max_batch_size, args.largest_batch(), tokens)?;

    let engine = MeasuredEngine { handle: EngineHandle::spawn(engine), caches };
    let roofline = args.bandwidth.map(|bandwidth| StepRoofline::new(bandwidth, &spec, &memory));
    let mut prompts = RandomPrompts::new(1, spec.vocab);
    let mut rows = Vec::new();
    for &batch in &args.batch {
        // Not counted: it brings weights into memory and the device up to speed.
        Run::measure(&engine, &mut prompts, batch, args)?;
        let mut measure = || Run::measure(&engine, &mut prompts, batch, args);
        let runs = (0..args.repeat).map(|_| measure()).collect::<Result<Vec<_>>>()?;
        let middle = prompt_tokens as f64 + new_tokens as f64 / 2.0;
        let roofline_ms = roofline.as_ref().map(|roofline| roofline.step_ms(batch, middle));
        rows.push(row(batch, runs, roofline_ms)?);
    }
    let random_weights = args.measured.random_weights();
    Ok(LlmReport { model: name, random_weights, memory, prompt_tokens, new_tokens, rows })
}

/// One run of a batch size.
struct Run {
    prefill_tokens_per_second: f64,
    decode_tokens_per_second: f64,
    /// A request alone cannot prefill while others decode, and users may skip it.
    mixed: Option<MixedRun>,
}

impl Run {
    fn measure(
        engine: &MeasuredEngine,
        prompts: &mut RandomPrompts,
        batch: usize,
        args: &LlmArgs,
    ) -> Result<Self> {
        let LlmArgs { prompt_tokens, new_tokens, no_mixed, .. } = *args;
        let batch = prompts.batch(batch, prompt_tokens);
        let read = EngineRun::submit(engine, &batch, 1)?.token_times()?;
        let read_time = last_first_token(&read).context("a request made no token")?;
        let written = EngineRun::submit(engine, &batch, new_tokens)?.token_times()?;
        let window = DecodeWindow::of(&written)
            .context("one request had ended before another began; give more --new-tokens")?;
        let mixed = match &batch[1..] {
            [] => None,
            _ if no_mixed => None,
            decoding => Some(MixedRun::measure(engine, decoding, new_tokens, prompts)?),
        };
        let read_tokens = (batch.len() * prompt_tokens) as f64;
        Ok(Run {
            prefill_tokens_per_second: read_tokens / read_time.as_secs_f64(),
            decode_tokens_per_second: window.tokens_per_second(),
            mixed,
        })
    }
}

fn row(batch: usize, runs: Vec<Run>, roofline_ms: Option<f64>) -> Result<Row> {
    let read = Spread::of(runs.iter().map(|run| run.prefill_tokens_per_second).collect());
    let written = Spread::of(runs.iter().map(|run| run.decode_tokens_per_second).collect());
    let mixed: Vec<MixedRun> = runs.into_iter().filter_map(|run| run.mixed).collect();
    let mixed = match mixed.as_slice() {
        [] => None,
        runs => Some(MixedRates::of(batch - 1, runs)?),
    };
    Ok(Row::new(batch, read, written, roofline_ms, mixed))
}

#[cfg(test)]
mod tests;
