//! `terrace bench hstu`: how fast candidates are ranked, with and without cached histories.

mod control_path;
mod ranked_users;
mod report;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use terrace_device::DType;
use terrace_engine::rank::{RankConfig, RankSetup, RankSource};
use terrace_engine::{DeviceChoice, KvTiers};
use terrace_model::hstu::HstuConfig;

use self::ranked_users::RankedUsers;
use self::report::{HstuReport, StageRow};
use crate::byte_size::ByteSize;
use crate::commands::print_report::print_report;
use crate::options::start_quiet_log;

/// Measure how fast a generative recommender (HSTU) ranks candidates on this machine.
///
/// The model has the given sizes and random weights: no files are needed. All users are asked for
/// at once, and timed is what a caller waits for, from the requests' ids to the last score, host
/// work included. The median of --repeat runs is shown, after three that are not counted.
#[derive(Args, Debug)]
#[command(after_long_help = "Reading the table:
  uncached       nothing is known of the users
  cached         keys and values of all but --new tokens are in the device's pages
  from host      they are in pinned host memory, and come layer by layer while the step runs
  transfer       the same bytes, and nothing computed
  device         of the median's run, from the first kernel to the last (0 on the CPU)
  requests       checks and embedding rows, on the callers' threads in a server
  control path   look-up, content check, pages and metadata of all users, on one thread
Last comes how far scores with cached histories are from those without.

Examples:
  terrace bench hstu
  terrace bench hstu --users 1
  terrace bench hstu --device cpu --users 1 --layers 3 --hidden 512 --head-dim 128")]
pub struct HstuArgs {
    /// auto (the first GPU, or the CPU when there is none), cpu, or cuda:0.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,

    /// Users that are asked for at once.
    #[arg(long, value_name = "USERS", default_value_t = 8)]
    users: usize,

    /// Tokens of a history.
    #[arg(long, value_name = "TOKENS", default_value_t = 4096)]
    history: usize,

    /// Of these, tokens that are not cached.
    #[arg(long, value_name = "TOKENS", default_value_t = 128)]
    new: usize,

    /// Candidates of a user.
    #[arg(long, value_name = "COUNT", default_value_t = 256)]
    candidates: usize,

    /// Layers of the model.
    #[arg(long, value_name = "LAYERS", default_value_t = 8)]
    layers: usize,

    /// Numbers of an embedding row.
    #[arg(long, value_name = "SIZE", default_value_t = 1024)]
    hidden: usize,

    /// Heads of attention.
    #[arg(long, value_name = "HEADS", default_value_t = 4)]
    heads: usize,

    /// Numbers of a head.
    #[arg(long, value_name = "SIZE", default_value_t = 256)]
    head_dim: usize,

    /// Tokens of a page.
    #[arg(long, value_name = "TOKENS", default_value_t = 64)]
    page_tokens: usize,

    /// What keys and values are kept as: f32, f16, bf16, f8e4m3, f8e5m2, int8. Left out: what the
    /// model computes in.
    #[arg(long, value_name = "TYPE")]
    kv_dtype: Option<String>,

    /// Computes in f32 instead of bf16 with f32 sums.
    #[arg(long)]
    f32: bool,

    /// Orders of sums do not depend on what else is in a step.
    #[arg(long)]
    deterministic: bool,

    /// Worker threads of the CPU. Left out: one for each processor.
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,

    /// Host memory for pages that leave the device.
    #[arg(long, value_name = "BYTES", default_value = "4GiB")]
    host_bytes: ByteSize,

    /// Embedding tables stay in pinned host memory, which a GPU reads over the bus.
    #[arg(long)]
    tables_on_host: bool,

    /// Write steps, layers and copies over time to this file, for Perfetto.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Runs of each measurement.
    #[arg(long, value_name = "RUNS", default_value_t = 20)]
    repeat: usize,

    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &HstuArgs) -> Result<()> {
    start_quiet_log();
    print_report(&measure(args)?, args.json)
}

fn measure(args: &HstuArgs) -> Result<HstuReport> {
    args.check()?;
    let model = args.model();
    let setup = RankSetup {
        source: RankSource::Random { config: &model, rows: ranked_users::TABLE_ROWS },
        config: args.config()?,
    };
    let (engine, front) = setup.build()?;
    let mut users = RankedUsers::new(engine, front, args.users, args.history, args.candidates);
    let cached = args.history - args.new;
    let rows = vec![
        StageRow::of("uncached", args.repeat, || users.uncached())?,
        StageRow::of("cached", args.repeat, || users.cached(cached))?,
        StageRow::of("from host", args.repeat, || users.promoted(cached))?,
        StageRow::of("transfer", args.repeat, || users.transfer(cached))?,
        StageRow::of("requests", args.repeat, || users.requests())?,
        StageRow::of("control path", args.repeat, || users.control_path(cached, args.page_tokens))?,
    ];
    Ok(HstuReport {
        device: match args.device.find()? {
            Some(gpu) => format!("cuda:{} {}", gpu.ordinal, gpu.name),
            None => "cpu".to_owned(),
        },
        users: args.users,
        history: args.history,
        new: args.new,
        candidates: args.candidates,
        layers: args.layers,
        hidden: args.hidden,
        heads: args.heads,
        head_dim: args.head_dim,
        rows,
        largest_difference: users.difference.largest,
        largest_score: users.difference.largest_score,
    })
}

impl HstuArgs {
    fn check(&self) -> Result<()> {
        let sizes = [self.users, self.history, self.candidates, self.layers, self.hidden];
        let more = [self.heads, self.head_dim, self.page_tokens, self.repeat];
        if sizes.iter().chain(&more).any(|size| *size == 0) {
            bail!("sizes must be 1 or more");
        }
        if self.history < self.new {
            bail!("a history of {} tokens has no {} new ones", self.history, self.new);
        }
        Ok(())
    }

    fn model(&self) -> HstuConfig {
        HstuConfig {
            num_layers: self.layers,
            hidden_size: self.hidden,
            num_attention_heads: self.heads,
            head_dim: self.head_dim,
            scaling_seqlen: self.history,
            max_history_tokens: self.history,
            max_candidates: self.candidates,
            ..HstuConfig::ranking("item")
        }
    }

    fn config(&self) -> Result<RankConfig> {
        let defaults = RankConfig::default();
        let kv_dtype = self.kv_dtype.as_deref().map(dtype).transpose()?;
        let token_bytes = 2 * self.heads * self.head_dim * self.layers * 4;
        // Twice what the users need, so that none is evicted.
        let pages = 2 * self.users * (self.history + self.page_tokens);
        Ok(RankConfig {
            device: self.device,
            page_tokens: self.page_tokens,
            kv_bytes: Some(pages * token_bytes),
            kv_dtype,
            f32: self.f32,
            deterministic: self.deterministic,
            tables_on_host: self.tables_on_host,
            trace: self.trace.clone(),
            max_step_tokens: self.users * (self.history + self.candidates),
            max_users: self.users,
            threads: self.threads.unwrap_or(defaults.threads),
            tiers: KvTiers { host_bytes: Some(self.host_bytes.0), ..KvTiers::default() },
            ..defaults
        })
    }
}

fn dtype(name: &str) -> Result<DType> {
    let known = [DType::F32, DType::F16, DType::Bf16, DType::F8E4m3, DType::F8E5m2, DType::I8];
    match known.iter().find(|dtype| dtype.name() == name) {
        Some(dtype) => Ok(*dtype),
        None => bail!("{name:?} is none of f32, f16, bf16, f8e4m3, f8e5m2, int8"),
    }
}
