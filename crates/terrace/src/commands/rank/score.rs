//! `terrace rank score`: scores the requests of a file.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use terrace_engine::DeviceChoice;
use terrace_engine::rank::{RankConfig, RankSetup, RankSource, Truncate};
use terrace_model::hstu::HstuFiles;

use super::score_shape::{ScoreLine, ScoredLine};
use crate::byte_size::ByteSize;
use crate::open_model;

/// Score the requests of a file, one after the other, with a cache for the users in it.
///
/// A line is one request; a line of results follows for each, in their order.
#[derive(Args, Debug)]
#[command(after_long_help = "A request:
  {\"user\": \"anna\", \"context\": [3, 1], \"items\": [10, 11], \"actions\": [1, 4],
   \"candidates\": [12, 13, 14]}
on one line. \"context\" has an id for each contextual feature of the model, \"actions\" one for
each item (neither where the model has none). Also known: \"tenant\", \"priority\", \"strict\"
(refuse ids that a table has not got), \"start\" (the position of the first token that is given).

Examples:
  terrace rank score requests.jsonl --model models/kuairand
  terrace rank score requests.jsonl --model models/kuairand --truncate recent > scores.jsonl")]
pub struct ScoreArgs {
    /// The file with requests, a JSON object on each line.
    file: PathBuf,

    /// The model's folder: config.json and safetensors, as docs/recommenders.md says.
    #[arg(long, value_name = "FOLDER")]
    model: PathBuf,

    /// auto (the first GPU, else the CPU), cpu, or cuda:0.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,

    /// Bytes of keys and values that are kept of users. Left out: 1 GiB on the CPU, most of what
    /// is free on a GPU.
    #[arg(long, value_name = "BYTES")]
    kv_bytes: Option<ByteSize>,

    /// What stays of a history that is too long: `oldest_kept` or `recent`.
    #[arg(long, value_name = "WHICH", default_value = "oldest_kept")]
    truncate: Truncate,

    /// Computes in f32 instead of bf16 with f32 sums.
    #[arg(long)]
    f32: bool,

    /// Worker threads. Left out: one for each processor.
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
}

pub fn run(args: &ScoreArgs) -> Result<()> {
    let text = std::fs::read_to_string(&args.file)
        .with_context(|| format!("cannot read {}", args.file.display()))?;
    let mut files = HstuFiles::open(&args.model)
        .with_context(|| format!("cannot open the model {}", args.model.display()))?;
    files.hash_store = open_model::hash_store();
    let is_classes = files.config.num_tasks == 1;
    let defaults = RankConfig::default();
    let config = RankConfig {
        kv_bytes: args.kv_bytes.map(|bytes| bytes.0),
        device: args.device,
        f32: args.f32,
        truncate: args.truncate,
        threads: args.threads.unwrap_or(defaults.threads),
        ..defaults
    };
    let engine = RankSetup { source: RankSource::Files(&files), config }.start()?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut out = std::io::stdout().lock();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = || format!("line {} of {}", number + 1, args.file.display());
        let line: ScoreLine =
            serde_json::from_str(line).map_err(|error| anyhow!("{}: {error}", at()))?;
        let request = line.into_request();
        let output = runtime
            .block_on(engine.rank(request.clone()))
            .map_err(|error| anyhow!("{}: {error}", at()))?;
        let scored = ScoredLine::new(&request, output, is_classes);
        writeln!(out, "{}", serde_json::to_string(&scored)?)?;
    }
    Ok(())
}
