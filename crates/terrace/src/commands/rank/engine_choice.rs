//! How the engine computes that answers a command's requests.

use clap::Args;
use terrace_engine::DeviceChoice;
use terrace_engine::rank::{RankConfig, Truncate};

use crate::byte_size::ByteSize;

#[derive(Args, Debug)]
pub struct EngineChoice {
    /// auto (the first GPU, else the CPU), cpu, or cuda:0.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,

    /// Bytes of keys and values that are kept of users. Left out: 1 GiB on the CPU, most of what
    /// is free on a GPU.
    #[arg(long, value_name = "BYTES")]
    kv_bytes: Option<ByteSize>,

    /// What stays of a history that is too long: `oldest_kept` or `recent`.
    #[arg(long, value_name = "WHICH", default_value = "oldest_kept")]
    pub truncate: Truncate,

    /// Computes in f32 instead of bf16 with f32 sums.
    #[arg(long)]
    f32: bool,

    /// Worker threads. Left out: one for each processor.
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
}

impl EngineChoice {
    pub fn config(&self) -> RankConfig {
        let defaults = RankConfig::default();
        RankConfig {
            kv_bytes: self.kv_bytes.map(|bytes| bytes.0),
            device: self.device,
            f32: self.f32,
            truncate: self.truncate,
            threads: self.threads.unwrap_or(defaults.threads),
            ..defaults
        }
    }
}
