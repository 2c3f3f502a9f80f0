//! What `terrace bench ps` measures, and how large.

use std::path::PathBuf;
use std::thread::available_parallelism;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use terrace_engine::DeviceChoice;

use super::key_draw::KeyDraw;

/// Measure how fast the levels of embedding tables give rows.
///
/// Rows of --dim numbers are put into each level and then looked up in batches, by keys that are
/// drawn by Zipf's law and by keys that are all alike. Beside each stands what bounds it, measured
/// in the same run and in turns: for memory a plain array that is read by row numbers, for Redis,
/// RocksDB and the embedded store (fjall) a plain client of the same library, for a GPU the bytes
/// that must move, at the speed of a copy. The best of --repeat runs is shown, after one that is
/// not counted.
#[derive(Args, Debug)]
#[command(after_long_help = "Reading the tables:
  get         rows looked up, all of which are there
  update      rows replaced
  load        rows put into an empty level
  beside      plain array: copies of rows whose numbers are known
              redis client: a cluster connection, HMGET for each partition, a pipeline for each node
              rocksdb client: the keys of a batch sorted, and one batched multi-get
              fjall client: a get for each key
              bandwidth: the bytes that must move, at the speed of a copy in this run
  share       of that, how fast the level is

What a level needs and has not got leaves it out, and is said; with --only it is an error.

Examples:
  terrace bench ps
  terrace bench ps --only ram --threads 2
  terrace bench ps --only redis --redis 127.0.0.1:7000,127.0.0.1:7001,127.0.0.1:7002
  terrace bench ps --only rocksdb,embedded --folder /var/tmp
  terrace bench ps --only gpu --device cuda:0 --json > ps.json")]
pub struct PsArgs {
    /// What to measure. Left out: everything this machine has.
    #[arg(long, value_name = "LEVELS", value_delimiter = ',')]
    pub only: Vec<MeasuredLevel>,

    /// Numbers of a row.
    #[arg(long, value_name = "NUMBERS", default_value_t = 64)]
    pub dim: usize,

    /// Rows in memory.
    #[arg(long, value_name = "ROWS", default_value_t = 10_000_000)]
    pub rows: usize,

    /// Keys of a run in memory, for each thread.
    #[arg(long, value_name = "KEYS", default_value_t = 4_000_000)]
    pub lookups: usize,

    /// Rows in Redis, RocksDB and the embedded store.
    #[arg(long, value_name = "ROWS", default_value_t = 1_000_000)]
    pub stored_rows: usize,

    /// Keys of a run in Redis, RocksDB and the embedded store.
    #[arg(long, value_name = "KEYS", default_value_t = 200_000)]
    pub stored_lookups: usize,

    /// Keys of a batch; several sizes are measured one after the other. RocksDB and the embedded
    /// store take the first.
    #[arg(long, value_name = "KEYS", value_delimiter = ',', default_value = "10000,1024")]
    pub batch: Vec<usize>,

    /// The exponent of Zipf's law.
    #[arg(long, value_name = "EXPONENT", default_value_t = 1.05)]
    pub zipf: f64,

    /// One thread is measured, and so many. Left out: one for each core.
    #[arg(long, value_name = "THREADS")]
    pub threads: Option<usize>,

    /// Servers of a Redis Cluster, whose rows of this benchmark are removed at the end.
    #[arg(long, value_name = "HOST:PORT,...")]
    pub redis: Option<String>,

    /// Where RocksDB and the embedded store get folders of their own, which are removed at the end.
    /// Left out: the system's folder for temporary files.
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,

    /// The GPU: auto (the first, if there is one), cpu (none), or cuda:0.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: DeviceChoice,

    /// Rows in the GPU's caches.
    #[arg(long, value_name = "ROWS", default_value_t = 64 << 20)]
    pub gpu_rows: usize,

    /// Keys of a large query or write on the GPU.
    #[arg(long, value_name = "KEYS", default_value_t = 1 << 20)]
    pub gpu_keys: usize,

    /// Keys of a small query on the GPU, of which many follow each other.
    #[arg(long, value_name = "KEYS", default_value_t = 1024)]
    pub gpu_batch: usize,

    /// Runs of each, after one that is not counted.
    #[arg(long, value_name = "RUNS", default_value_t = 5)]
    pub repeat: usize,

    /// Print JSON instead of tables.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MeasuredLevel {
    Ram,
    Redis,
    Rocksdb,
    Embedded,
    Gpu,
}

impl MeasuredLevel {
    pub fn name(self) -> &'static str {
        match self {
            MeasuredLevel::Ram => "ram",
            MeasuredLevel::Redis => "redis",
            MeasuredLevel::Rocksdb => "rocksdb",
            MeasuredLevel::Embedded => "embedded",
            MeasuredLevel::Gpu => "gpu",
        }
    }
}

impl PsArgs {
    pub fn check(&self) -> Result<()> {
        let sizes = [self.dim, self.rows, self.lookups, self.stored_rows, self.stored_lookups];
        let more = [self.gpu_rows, self.gpu_keys, self.gpu_batch, self.repeat, self.most_threads()];
        if sizes.iter().chain(&more).chain(&self.batch).any(|size| *size == 0) {
            bail!("sizes must be 1 or more");
        }
        if self.batch.is_empty() {
            bail!("--batch needs at least one size");
        }
        if !(self.zipf.is_finite() && self.zipf > 0.0) {
            bail!("--zipf {} is no exponent; give a number above 0", self.zipf);
        }
        if self.gpu_batch > self.gpu_keys || self.gpu_keys > self.gpu_rows {
            let PsArgs { gpu_batch, gpu_keys, gpu_rows, .. } = self;
            bail!(
                "--gpu-batch {gpu_batch} must not be above --gpu-keys {gpu_keys}, nor that above \
                 --gpu-rows {gpu_rows}"
            );
        }
        Ok(())
    }

    pub fn measures(&self, level: MeasuredLevel) -> bool {
        self.only.is_empty() || self.only.contains(&level)
    }

    pub fn draws(&self) -> [KeyDraw; 2] {
        [KeyDraw::Zipf(self.zipf), KeyDraw::Uniform]
    }

    pub fn largest_batch(&self) -> usize {
        self.batch.iter().copied().max().unwrap_or(1)
    }

    /// One, and so many as were asked for.
    pub fn thread_counts(&self) -> Vec<usize> {
        let mut counts = vec![1, self.most_threads()];
        counts.dedup();
        counts
    }

    pub fn most_threads(&self) -> usize {
        self.threads.unwrap_or_else(|| available_parallelism().map_or(1, usize::from))
    }
}
