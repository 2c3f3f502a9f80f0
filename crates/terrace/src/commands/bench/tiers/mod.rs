//! `terrace bench tiers`: how soon a first token comes when its prefix is on the device, in host
//! memory, on disk or nowhere, and what pages that move cost those who decode.
//!
//! Engines are made one after the other, in this process. One has room for a single sequence on the
//! device, so that a second prompt pushes the first one's pages out; a fresh one on the same folder
//! finds prefixes on disk alone, as after a restart; the last decodes while pages move behind it.

mod moves_beside;
mod prefix_times;
mod report;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use terrace_engine::{AddedMoves, EngineHandle, EngineSetup, InferenceConfig, Shutdown};

use self::moves_beside::{MoveCounts, MovesBeside};
use self::prefix_times::{PrefixTimes, first_token_ms};
use self::report::{DecodeRow, PrefixRow, TiersReport};
use super::bench_options::BenchOptions;
use super::decode_window::DecodeWindow;
use super::engine_run::{EngineRun, MeasuredEngine};
use super::measured_model::MeasuredModel;
use super::random_prompts::RandomPrompts;
use super::spread::Spread;
use crate::commands::percentiles::Percentiles;
use crate::commands::print_report::print_report;
use crate::options::{EngineDefaults, start_quiet_log, trace_path};
use crate::progress;

/// Measure what the tiers of the KV cache are worth, and what they cost.
///
/// First the TTFT (time to first token) of a request whose prefix is computed, on the device, in
/// host memory, and on disk after a restart where `--kv-tier disk=FOLDER,SIZE` is given; with some
/// new tokens after the prefix. Then the throughput and the ITL (inter-token latency) of requests
/// that decode, alone and while idle pages leave the device and come back behind them.
#[derive(Args, Debug)]
#[command(after_long_help = "Reading the tables:
  new tokens     what follows the prefix, and is computed in any case
  computed       TTFT where nothing of the prompt is known
  device, host   TTFT where the prefix is in pages of the device, or of host memory alone
  disk           TTFT where it is on disk alone; direct I/O passes the page cache by
  moved          bytes that leave the device, and that come back, a second, while others decode

Examples:
  terrace bench tiers --shape llama3-8b --random-weights --dtype bf16 --device cuda:0 \\
    --kv-tier disk=/var/tmp/terrace-bench,20GiB
  terrace bench tiers --prefix-tokens 2048 --new 32 --decoding 0")]
pub struct TiersArgs {
    /// Tokens of the prefix.
    #[arg(long, value_name = "TOKENS", default_value_t = 16384)]
    prefix_tokens: usize,

    /// Tokens after the prefix; several numbers are measured one after the other.
    #[arg(long, value_name = "TOKENS", value_delimiter = ',', default_value = "128,4096")]
    new: Vec<usize>,

    /// Runs of each.
    #[arg(long, value_name = "RUNS", default_value_t = 3)]
    repeat: usize,

    /// Requests that decode while pages move; 0 leaves this part out.
    #[arg(long, value_name = "REQUESTS", default_value_t = 64)]
    decoding: usize,

    /// Prompt tokens of each of them.
    #[arg(long, value_name = "TOKENS", default_value_t = 1024)]
    decoding_prompt: usize,

    /// Output tokens of each of them.
    #[arg(long, value_name = "TOKENS", default_value_t = 512)]
    decoding_tokens: usize,

    #[command(flatten)]
    measured: BenchOptions,
}

/// Pages on their way behind those who decode, in each direction.
const PAGES_BESIDE: usize = 256;

pub fn run(args: &TiersArgs) -> Result<()> {
    start_quiet_log();
    args.check()?;
    let report = TiersReport {
        prefix_tokens: args.prefix_tokens,
        prefixes: measure_prefixes(args)?,
        decoding: match args.decoding {
            0 => None,
            _ => Some(measure_decoding(args)?),
        },
    };
    print_report(&report, args.measured.json)
}

impl TiersArgs {
    fn check(&self) -> Result<()> {
        let sizes = [self.prefix_tokens, self.repeat, self.decoding_prompt];
        if sizes.contains(&0) || self.new.contains(&0) || self.new.is_empty() {
            bail!("give at least 1 prefix token, 1 new token, 1 run and 1 prompt token");
        }
        if self.decoding_tokens < 2 {
            bail!("give at least 2 --decoding-tokens");
        }
        Ok(())
    }

    fn most_new(&self) -> usize {
        self.new.iter().copied().max().unwrap_or(0)
    }

    /// An engine with room for one sequence on the device.
    fn prefix_config(&self) -> Result<InferenceConfig> {
        let page_tokens = self.measured.engine.page_tokens();
        let longest = self.prefix_tokens + self.most_new();
        let defaults = EngineDefaults::measuring(1, longest, 1, page_tokens);
        Ok(self.measured.engine.inference_config(defaults)?)
    }

    fn open(&self, config: &InferenceConfig, added: Option<AddedMoves>) -> Result<Opened> {
        let longest = self.prefix_tokens + self.most_new() + 1;
        let longest = longest.max(self.decoding_prompt + self.decoding_tokens);
        let MeasuredModel { spec, weights, .. } = MeasuredModel::open(&self.measured, longest)?;
        let (bar, vocab) = (progress::layers("placing", spec.layers.len()), spec.vocab);
        let setup = match added {
            None => EngineSetup::new(spec, weights, config, || bar.inc(1)),
            Some(added) => {
                EngineSetup::with_added_moves(spec, weights, config, || bar.inc(1), added)
            }
        };
        bar.finish_and_clear();
        let EngineSetup { engine, memory, caches, .. } = setup?;
        let page_bytes = memory.kv_bytes / memory.kv_pages;
        let handle = EngineHandle::spawn(engine);
        Ok(Opened { engine: MeasuredEngine { handle, caches }, vocab, page_bytes })
    }
}

/// An engine that runs, and what of it is reported.
struct Opened {
    engine: MeasuredEngine,
    vocab: usize,
    page_bytes: usize,
}

fn measure_prefixes(args: &TiersArgs) -> Result<Vec<PrefixRow>> {
    let mut config = args.prefix_config()?;
    let has_disk = config.kv_tiers.disk.is_some();
    let longest = args.prefix_tokens + args.most_new();
    if config.kv_tiers.host_bytes.is_none() {
        // Of the prefix and of what pushes it out.
        let MeasuredModel { spec, .. } = MeasuredModel::open(&args.measured, longest + 1)?;
        let groups = spec.kv_groups(config.block_size, config.page_dtype());
        let of_sequence = |group: &terrace_model::LayerGroup| {
            longest.div_ceil(group.layout.page_tokens) * group.layout.page_bytes()
        };
        config.kv_tiers.host_bytes = Some(3 * groups.iter().map(of_sequence).sum::<usize>());
    }
    let opened = args.open(&config, None)?;
    let mut prompts = RandomPrompts::new(1, opened.vocab);
    let mut times = PrefixTimes::new(&opened.engine, &mut prompts, args.prefix_tokens, longest);
    // Not counted: it brings the device up to speed.
    times.warm_up()?;
    let mut rows = Vec::new();
    let mut left = Vec::new();
    for &new_tokens in &args.new {
        let (mut computed, mut device, mut host) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..args.repeat {
            let prefix = times.new_prefix();
            computed.push(times.computed(&prefix, new_tokens)?);
            device.push(times.on_device(&prefix, new_tokens)?);
            host.push(times.on_host(&prefix, new_tokens)?);
            left.push((new_tokens, prefix));
        }
        let pages = args.prefix_tokens / args.measured.engine.page_tokens();
        let bytes = pages * opened.page_bytes;
        rows.push(PrefixRow::new(new_tokens, bytes, computed, device, host));
    }
    if has_disk {
        opened.engine.handle.shutdown(Shutdown::Flush);
        drop(opened);
        config.trace = trace_of(&config, "disk");
        let opened = args.open(&config, None)?;
        let mut prompts = RandomPrompts::new(2, opened.vocab);
        // The first request of an engine is slower than others.
        first_token_ms(&opened.engine, prompts.next(args.most_new()))?;
        for row in &mut rows {
            let of_row = left.iter().filter(|(new_tokens, _)| *new_tokens == row.new_tokens);
            let mut disk = Vec::new();
            for (new_tokens, prefix) in of_row {
                let prompt = [&prefix[..], &prompts.next(*new_tokens)].concat();
                disk.push(first_token_ms(&opened.engine, prompt)?.ttft_ms);
            }
            row.set_disk(disk);
        }
    }
    Ok(rows)
}

/// Each engine has a file of its own.
fn trace_of(config: &InferenceConfig, part: &str) -> Option<PathBuf> {
    config.trace.as_ref().map(|path| trace_path::of_model(path, part))
}

fn measure_decoding(args: &TiersArgs) -> Result<DecodeRow> {
    let page_tokens = args.measured.engine.page_tokens();
    let (prompt_tokens, new_tokens) = (args.decoding_prompt, args.decoding_tokens);
    // Twice the requests: half of the pages are idle, and move.
    let mut defaults =
        EngineDefaults::measuring(args.decoding, prompt_tokens, new_tokens, page_tokens);
    defaults.max_batch_size +=
        (4 * PAGES_BESIDE * page_tokens).div_ceil(prompt_tokens + new_tokens);
    let mut config = args.measured.engine.inference_config(defaults)?;
    config.kv_tiers.disk = None;
    config.kv_tiers.redis.clear();
    config.trace = trace_of(&config, "decoding");
    let moved = MoveCounts::default();
    let beside = moved.clone();
    let added = AddedMoves {
        pages: 2 * PAGES_BESIDE,
        add: Box::new(move |executor, pages, stored| {
            Box::new(MovesBeside::new(executor, pages, stored, PAGES_BESIDE, beside))
        }),
    };
    let opened = args.open(&config, Some(added))?;
    let mut prompts = RandomPrompts::new(3, opened.vocab);
    let batch = prompts.batch(args.decoding, prompt_tokens);
    // Not counted: it fills the prefix cache, and brings the device up to speed.
    EngineRun::submit(&opened.engine, &batch, new_tokens)?.token_times()?;
    let (mut alone, mut beside) = (DecodeTimes::default(), DecodeTimes::default());
    for _ in 0..args.repeat {
        alone.add(&opened, &batch, new_tokens)?;
        let pages = moved.begin();
        let start = std::time::Instant::now();
        beside.add(&opened, &batch, new_tokens)?;
        let [outward, inward] = moved.end(pages);
        let gb = |pages: u64| (pages * opened.page_bytes as u64) as f64 / 1e9;
        let seconds = start.elapsed().as_secs_f64();
        beside.moved.push([gb(outward) / seconds, gb(inward) / seconds]);
    }
    let itl = |times: &DecodeTimes| Percentiles::of(&times.waits).context("nothing was written");
    Ok(DecodeRow {
        decoding: args.decoding,
        alone: Spread::of(alone.rates.clone()),
        beside: Spread::of(beside.rates.clone()),
        alone_itl_ms: itl(&alone)?,
        beside_itl_ms: itl(&beside)?,
        out_gb_per_second: Spread::of(beside.moved.iter().map(|moved| moved[0]).collect()),
        in_gb_per_second: Spread::of(beside.moved.iter().map(|moved| moved[1]).collect()),
    })
}

/// Of several runs.
#[derive(Default)]
struct DecodeTimes {
    rates: Vec<f64>,
    waits: Vec<std::time::Duration>,
    moved: Vec<[f64; 2]>,
}

impl DecodeTimes {
    fn add(&mut self, opened: &Opened, batch: &[Vec<u32>], new_tokens: usize) -> Result<()> {
        let times = EngineRun::submit(&opened.engine, batch, new_tokens)?.token_times()?;
        let window = DecodeWindow::of(&times)
            .context("one request had ended before another began; give more --decoding-tokens")?;
        self.rates.push(window.tokens_per_second());
        let first = super::decode_window::last_first_token(&times).context("no token came")?;
        let gaps = times.iter().flat_map(|times| times.windows(2));
        let gaps = gaps.filter(|pair| first <= pair[0]);
        self.waits.extend(gaps.map(|pair| pair[1] - pair[0]));
        Ok(())
    }
}
