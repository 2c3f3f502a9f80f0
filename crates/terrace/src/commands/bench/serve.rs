//! `terrace bench serve`: what clients see of the whole service, over HTTP.
//!
//! The real server runs in this process on a free port of 127.0.0.1, its clients on threads of
//! their own. All streams are opened at once, each with its own prompt of random tokens.

use std::net::SocketAddr;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use terrace_engine::text::LanguageModel;
use terrace_engine::{Setup, TokenId};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::loopback_server::LoopbackServer;
use super::measured_model::MeasuredModel;
use super::random_prompts::RandomPrompts;
use super::room::check_room;
use super::serve_report::ServeReport;
use super::serve_times::ServeTimes;
use super::soak::{self, SoakPlan};
use super::streamed_answer::StreamedAnswer;
use crate::options::{EngineDefaults, EngineOptions, ShapeOptions, start_quiet_log};
use crate::progress;

/// Pages are handed out as after a long service, not in a row.
const PAGE_SEED: u64 = 1;
/// New tokens of the run that is not counted.
const WARM_UP_TOKENS: usize = 8;

/// Measure the whole service over HTTP, as its clients see it.
///
/// Starts the server in this process on a free port of 127.0.0.1, opens --streams streaming
/// requests to /v1/completions at once, and counts tokens while all of them write. With --soak it
/// sends mixed traffic instead, and checks that nothing is left behind.
#[derive(Args, Debug)]
#[command(after_long_help = "Reading the result:
  written tok/s  new tokens of all streams, from the last stream's first event to the first
                 stream's last. An event may carry several tokens, so each counts as the tokens of
                 its stream, which the server tells at the end, divided by the stream's events.
                 There is none if a stream ended before another began: give more --new-tokens
  first token    from a request to its first event, over the streams
  next token     between two events of a stream, over all streams

Examples:
  terrace bench serve --streams 8 --prompt-tokens 128 --new-tokens 64
  terrace bench serve --shape llama3-8b --random-weights --dtype bf16
  terrace bench serve --soak 600 --seed 7    # ends with 1 if a page is not free afterwards")]
pub struct ServeBenchArgs {
    /// Streams that run at once.
    #[arg(long, value_name = "STREAMS", default_value_t = 64)]
    streams: usize,

    /// Tokens of each prompt; in a soak, of the longest.
    #[arg(long, value_name = "TOKENS", default_value_t = 1024)]
    prompt_tokens: usize,

    /// Tokens of each answer; in a soak, of the longest.
    #[arg(long, value_name = "TOKENS", default_value_t = 512)]
    new_tokens: usize,

    /// Instead of measuring, send mixed traffic for so long: prompts and answers of any length, a
    /// third of the streams left midway, some with log-probabilities, penalties or several answers.
    /// Then wait until nothing runs, and check that all pages are free, that no answer failed, and
    /// that a GPU has as much free memory as after the first fifth of the time.
    #[arg(long, value_name = "SECONDS")]
    soak: Option<u64>,

    /// Seed of the prompts and of the mixed traffic.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Print JSON instead of lines.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    shape: ShapeOptions,
    #[command(flatten)]
    engine: EngineOptions,
}

pub fn run(args: &ServeBenchArgs) -> Result<()> {
    start_quiet_log();
    args.check()?;
    match args.soak {
        Some(seconds) => {
            let report = soak(args, seconds)?;
            args.print(&report)?;
            report.verdict()
        }
        None => args.print(&measure(args)?),
    }
}

impl ServeBenchArgs {
    fn check(&self) -> Result<()> {
        if self.new_tokens < 2 || self.prompt_tokens == 0 || self.streams == 0 {
            bail!("give at least 2 new tokens, 1 prompt token and 1 stream");
        }
        if self.soak == Some(0) {
            bail!("--soak must last at least 1 second");
        }
        Ok(())
    }

    fn print(&self, report: &(impl std::fmt::Display + serde::Serialize)) -> Result<()> {
        if self.json {
            println!("{}", serde_json::to_string_pretty(report)?);
        } else {
            println!("{report}");
        }
        Ok(())
    }
}

fn measure(args: &ServeBenchArgs) -> Result<ServeReport> {
    let (server, mut prompts) = start(args)?;
    let clients = client_threads()?;
    let mut get = |new_tokens| {
        let prompts = prompts.batch(args.streams, args.prompt_tokens);
        clients.block_on(answers(server.address, prompts, new_tokens))
    };
    get(args.new_tokens.min(WARM_UP_TOKENS))?;
    let answers = get(args.new_tokens)?;
    let times = ServeTimes::of(&answers).context("a stream had no text")?;
    let report = ServeReport {
        model: server.model.name().to_owned(),
        random_weights: args.shape.shape.map(|_| args.shape.weights.name()),
        memory: server.model.memory().clone(),
        streams: args.streams,
        prompt_tokens: args.prompt_tokens,
        new_tokens: args.new_tokens,
        times,
    };
    server.stop()?;
    Ok(report)
}

fn soak(args: &ServeBenchArgs, seconds: u64) -> Result<soak::SoakReport> {
    let (server, prompts) = start(args)?;
    let plan = SoakPlan {
        seed: args.seed,
        time: Duration::from_secs(seconds),
        streams: args.streams,
        prompt_tokens: args.prompt_tokens,
        new_tokens: args.new_tokens,
        vocab: prompts.vocab(),
    };
    let report = client_threads()?.block_on(soak::run(&server, &plan))?;
    server.stop()?;
    Ok(report)
}

fn start(args: &ServeBenchArgs) -> Result<(LoopbackServer, RandomPrompts)> {
    let ServeBenchArgs { streams, prompt_tokens, new_tokens, .. } = *args;
    let page_tokens = args.engine.page_tokens();
    let defaults = EngineDefaults::measuring(streams, prompt_tokens, new_tokens, page_tokens);
    // Wrong options are told before a model is fetched.
    let config = args.engine.inference_config(defaults)?;
    let tokens = prompt_tokens + new_tokens;
    let parts = MeasuredModel::open(&args.shape, &args.engine, tokens)?.into_parts();
    let prompts = RandomPrompts::new(args.seed, parts.spec.vocab);
    let bar = progress::layers("placing", parts.spec.layers.len());
    let setup = Setup::of_parts(parts, &config, || bar.inc(1));
    bar.finish_and_clear();
    let mut setup = setup?;
    if args.soak.is_none() {
        check_room(&setup.memory, config.max_batch_size, streams, tokens)?;
    }
    setup.engine.shuffle_pages(PAGE_SEED);
    Ok((LoopbackServer::start(LanguageModel::spawn(setup))?, prompts))
}

/// Few beside the server's, from which clients must take no more than they need.
fn client_threads() -> Result<Runtime> {
    let cores = available_parallelism().map_or(1, usize::from);
    let threads = (cores / 4).clamp(1, 4);
    let clients = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    clients.context("cannot start the clients' threads")
}

/// One stream for each prompt, all at once.
async fn answers(
    server: SocketAddr,
    prompts: Vec<Vec<TokenId>>,
    new_tokens: usize,
) -> Result<Vec<StreamedAnswer>> {
    let start = Instant::now();
    let mut streams = JoinSet::new();
    for prompt in prompts {
        streams.spawn(StreamedAnswer::get(server, prompt, new_tokens, start));
    }
    let mut answers = Vec::new();
    while let Some(answer) = streams.join_next().await {
        answers.push(answer.context("a client failed")??);
    }
    Ok(answers)
}

#[cfg(test)]
mod tests;
