//! How an engine that ranks is set up.

use std::path::PathBuf;
use std::time::Duration;

use terrace_device::DType;
use terrace_embedding::Residence;

use super::truncation::Truncate;
use crate::setup::device_choice::DeviceChoice;
use crate::setup::kv_tiers::KvTiers;

#[derive(Clone, Debug)]
pub struct RankConfig {
    /// What the model is called; users' pages on disk and in Redis are known by it.
    pub name: String,
    /// Tokens of a page.
    pub page_tokens: usize,
    pub device: DeviceChoice,
    /// Bytes of the device's pages. Left out: on the CPU 1 GiB, on a GPU most of what is free.
    pub kv_bytes: Option<usize>,
    /// What keys and values are kept as. Left out: what the model computes in.
    pub kv_dtype: Option<DType>,
    /// Computes in f32 instead of bf16 with f32 sums.
    pub f32: bool,
    /// How much of a GPU's memory the engine may take.
    pub gpu_memory_fraction: f32,
    /// Where NVIDIA's libraries lie, where they are not found.
    pub cuda_libs: Vec<PathBuf>,
    /// Orders of sums do not depend on what else is in a step.
    pub deterministic: bool,
    /// Most tokens, and most users, of a step.
    pub max_step_tokens: usize,
    pub max_users: usize,
    /// Most requests that wait.
    pub max_waiting: usize,
    pub truncate: Truncate,
    /// How long pages stay usable whose embedding tables were replaced. Left out: without limit.
    pub max_staleness: Option<Duration>,
    /// Embedding tables stay in pinned host memory, which a GPU reads over the bus: for tables that
    /// are larger than its memory.
    pub tables_on_host: bool,
    /// Where steps, copies and the tiers' work are written over time, if anywhere.
    pub trace: Option<PathBuf>,
    /// Worker threads of the CPU.
    pub threads: usize,
    /// The levels below the device's pages.
    pub tiers: KvTiers,
}

impl RankConfig {
    pub(super) fn residence(&self) -> Residence {
        if self.tables_on_host { Residence::Host } else { Residence::Device }
    }
}

impl Default for RankConfig {
    fn default() -> Self {
        RankConfig {
            name: String::new(),
            page_tokens: 64,
            device: DeviceChoice::default(),
            kv_bytes: None,
            kv_dtype: None,
            f32: false,
            gpu_memory_fraction: 0.9,
            cuda_libs: Vec::new(),
            deterministic: false,
            max_step_tokens: 8192,
            max_users: 64,
            max_waiting: 4096,
            truncate: Truncate::default(),
            max_staleness: None,
            tables_on_host: false,
            trace: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            tiers: KvTiers::default(),
        }
    }
}
