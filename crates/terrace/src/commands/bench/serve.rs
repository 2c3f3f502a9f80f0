//! `terrace bench serve`: what clients see of the whole service, over HTTP.
//!
//! The real server runs in this process on a free port of 127.0.0.1, or another one is measured by
//! its address. Clients run on threads of their own, each request with its own random prompt.

use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use terrace_engine::text::LanguageModel;
use tokio::runtime::{Builder, Runtime};

use super::batch_fits::check_batch_fits;
use super::bench_options::BenchOptions;
use super::load::{Load, Requests};
use super::loopback_server::LoopbackServer;
use super::measured_model::MeasuredModel;
use super::random_prompts::RandomPrompts;
use super::serve_report::{LoadReport, MeasuredServer, ServeReport};
use super::serve_times::ServeTimes;
use super::service::Service;
use super::soak::{self, SoakPlan};
use crate::commands::print_report::print_report;
use crate::options::{EngineDefaults, start_quiet_log};
use crate::progress;

/// New tokens of the run that is not counted.
const WARM_UP_TOKENS: usize = 8;
/// For how long requests come at each rate, unless their number is given.
const RATE_SECONDS: f64 = 30.0;

/// Measure the whole service over HTTP, as its clients see it.
///
/// Starts the server in this process on a free port of 127.0.0.1, or takes the one at --url, and
/// streams outputs of /v1/completions: with --streams clients that send one request after the
/// other (closed loop), or with --rate at random times (open loop). With --soak it sends mixed
/// traffic instead, and checks that nothing is left behind.
#[derive(Args, Debug)]
#[command(after_long_help = "Reading the table:
  req/s, tok/s   request and output token throughput, from the first request to the last event
  decode         output tokens a second while all requests decode: from the last one's first event
                 to the first one's last. An event may carry several tokens, so each counts as the
                 tokens of its output, which the server reports at the end, divided by the output's
                 events. There is none if an output ended before another began
  TTFT           time to first token: from a request to its first event
  ITL            inter-token latency: between two events of an output

Examples:
  terrace bench serve --streams 8 --prompt-tokens 128 --new-tokens 64
  terrace bench serve --rate 2,8 --prompt-tokens 128 --new-tokens 64
  terrace bench serve --url http://127.0.0.1:8080 --streams 8    # any OpenAI-compatible server
  terrace bench serve --shape llama3-8b --random-weights --dtype bf16
  terrace bench serve --soak 600 --seed 7    # ends with 1 if a page is not free afterwards")]
pub struct ServeBenchArgs {
    /// Streams that run at once. With --rate, how many the engine computes at once; others wait.
    #[arg(long, value_name = "STREAMS", default_value_t = 64)]
    streams: usize,

    /// Send requests at random times, on average so many a second, whether the service keeps up or
    /// not; several rates are measured one after the other.
    #[arg(long, value_name = "PER_SECOND", value_delimiter = ',', conflicts_with = "soak")]
    rate: Vec<f64>,

    /// Requests of each measurement. Left out: one for each stream, or what comes in 30 seconds.
    #[arg(long, value_name = "REQUESTS", conflicts_with = "soak")]
    requests: Option<usize>,

    /// Tokens of each prompt; in a soak, of the longest.
    #[arg(long, value_name = "TOKENS", default_value_t = 1024)]
    prompt_tokens: usize,

    /// Tokens of each output; in a soak, of the longest.
    #[arg(long, value_name = "TOKENS", default_value_t = 512)]
    new_tokens: usize,

    /// Measure the OpenAI-compatible server that listens there instead of starting one. It must
    /// take prompts of token ids, and ignore_eos; options of the engine do not apply to it.
    #[arg(long, value_name = "URL",
          conflicts_with_all = ["soak", "shape", "model", "device", "threads", "compute", "dtype"])]
    url: Option<String>,

    /// With --url: prompts have token ids below this number.
    #[arg(long, value_name = "IDS", default_value_t = 30_000, requires = "url")]
    vocab: usize,

    /// Instead of measuring, send mixed traffic for so long: prompts and outputs of any length, a
    /// third of the streams cancelled, some with log-probabilities, penalties or several choices.
    /// Then wait until nothing runs, and check that all pages are free, that no output failed, and
    /// that a GPU has as much free memory as after the first fifth of the time.
    #[arg(long, value_name = "SECONDS")]
    soak: Option<u64>,

    /// Seed of the prompts, of random times and of the mixed traffic.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    measured: BenchOptions,
}

pub fn run(args: &ServeBenchArgs) -> Result<()> {
    start_quiet_log();
    args.check()?;
    if let Some(seconds) = args.soak {
        let report = soak(args, seconds)?;
        print_report(&report, args.measured.json)?;
        return report.verdict();
    }
    let report = match &args.url {
        Some(url) => measure_url(args, url)?,
        None => measure_own(args)?,
    };
    print_report(&report, args.measured.json)
}

impl ServeBenchArgs {
    fn check(&self) -> Result<()> {
        let counts = [self.prompt_tokens, self.streams, self.requests.unwrap_or(1), self.vocab];
        if self.new_tokens < 2 || counts.contains(&0) {
            bail!("give at least 2 new tokens, 1 prompt token, 1 stream, 1 request and 1 id");
        }
        if self.rate.iter().any(|rate| !rate.is_finite() || *rate <= 0.0) {
            bail!("--rate must be above 0");
        }
        if self.soak == Some(0) {
            bail!("--soak must last at least 1 second");
        }
        Ok(())
    }

    fn loads(&self) -> Vec<Load> {
        match self.rate.as_slice() {
            [] => vec![Load::Streams(self.streams)],
            rates => rates.iter().map(|&rate| Load::RequestsPerSecond(rate)).collect(),
        }
    }

    fn requests_of(&self, load: Load) -> usize {
        self.requests.unwrap_or(match load {
            Load::Streams(streams) => streams,
            Load::RequestsPerSecond(rate) => (rate * RATE_SECONDS).ceil() as usize,
        })
    }

    fn report(&self, model: String, server: MeasuredServer, loads: Vec<LoadReport>) -> ServeReport {
        let Self { prompt_tokens, new_tokens, seed, .. } = *self;
        ServeReport { model, server, prompt_tokens, new_tokens, seed, loads }
    }
}

fn measure_own(args: &ServeBenchArgs) -> Result<ServeReport> {
    let (server, prompts) = start(args)?;
    let service = server.service();
    let loads = measure(args, &client_threads()?, &service, prompts)?;
    let random_weights = args.measured.random_weights();
    let memory = server.model.memory().clone();
    server.stop()?;
    Ok(args.report(service.model, MeasuredServer::InThisProcess { random_weights, memory }, loads))
}

fn measure_url(args: &ServeBenchArgs, url: &str) -> Result<ServeReport> {
    let clients = client_threads()?;
    let service = clients.block_on(Service::find(url))?;
    let loads = measure(args, &clients, &service, RandomPrompts::new(args.seed, args.vocab))?;
    Ok(args.report(service.model, MeasuredServer::Url(url.into()), loads))
}

fn measure(
    args: &ServeBenchArgs,
    clients: &Runtime,
    service: &Service,
    mut prompts: RandomPrompts,
) -> Result<Vec<LoadReport>> {
    let mut send = |load: Load, requests, new_tokens| {
        let prompts = prompts.batch(requests, args.prompt_tokens);
        clients.block_on(load.send(service, Requests { prompts, new_tokens }, args.seed))
    };
    send(Load::Streams(args.streams), args.streams, args.new_tokens.min(WARM_UP_TOKENS));
    let measure_load = |load: Load| {
        let requests = args.requests_of(load);
        let result = send(load, requests, args.new_tokens);
        let failed = result.failures.len();
        let first_failure = result.failures.into_iter().next();
        match ServeTimes::of(&result.outputs) {
            Some(times) => Ok(LoadReport { load, requests, failed, first_failure, times }),
            None => bail!(
                "all {failed} requests failed, the first: {}",
                first_failure.unwrap_or_default()
            ),
        }
    };
    args.loads().into_iter().map(measure_load).collect()
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
    let page_tokens = args.measured.engine.page_tokens();
    let defaults = EngineDefaults::measuring(streams, prompt_tokens, new_tokens, page_tokens);
    // Wrong options are reported before a model is fetched.
    let config = args.measured.engine.inference_config(defaults)?;
    let tokens = prompt_tokens + new_tokens;
    let parts = MeasuredModel::open(&args.measured, tokens)?.into_parts();
    let prompts = RandomPrompts::new(args.seed, parts.spec.vocab);
    let bar = progress::layers("placing", parts.spec.layers.len());
    let started = LanguageModel::start(parts, &config, || bar.inc(1));
    bar.finish_and_clear();
    let model = started?;
    if args.soak.is_none() {
        check_batch_fits(model.memory(), config.max_batch_size, streams, tokens)?;
    }
    Ok((LoopbackServer::start(model)?, prompts))
}

/// Few beside the server's, from which clients must take no more than they need.
fn client_threads() -> Result<Runtime> {
    let cores = available_parallelism().map_or(1, usize::from);
    let threads = (cores / 4).clamp(1, 4);
    let clients = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    clients.context("cannot start the clients' threads")
}

#[cfg(test)]
mod tests;
