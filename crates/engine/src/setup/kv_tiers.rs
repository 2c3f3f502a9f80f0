//! The levels below the device's pages, as they are asked for.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use terrace_cache::placement::PlacementRule;
use terrace_tiers::{
    BreakerConfig, DiskHandles, DiskTier, DiskTierConfig, GuardedTier, PageTier, RedisTier,
    RedisTierConfig, TierCounters, TierUsage, record,
};

use crate::error::Error;
use crate::generate::tier_config::TierConfig;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table of levels")]
pub struct KvTiers {
    /// Bytes of host memory. Absent: with a GPU an eighth of what is free; on the CPU, where pages
    /// are in host memory already, a quarter of their bytes for preempted sequences and for pages
    /// on their way to the levels below.
    pub host_bytes: Option<usize>,
    pub disk: Option<DiskLevel>,
    /// Nodes of a Redis Cluster, or one server: `host:port`.
    pub redis: Vec<String>,
    /// Copies pages below as soon as they are final, not only when their room is needed.
    pub write_through: bool,
    /// Which pages leave a level first: `lru`, `lfu` or `arc`.
    pub placement: PlacementRule,
    /// How long a request waits for pages of disk and Redis before it computes what is missing,
    /// while they keep coming. Absent: 250 on the CPU, which cannot compute beside it; with a GPU
    /// it does not wait.
    pub wait_ms: Option<u64>,
    /// Bytes of host memory that pinned handles may hold. Absent: half of it.
    pub pin_bytes: Option<usize>,
}

/// A folder, and the most bytes of all files in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskLevel {
    pub folder: PathBuf,
    pub bytes: u64,
}

/// What a level below host memory has done and holds, for metrics.
#[derive(Clone, Debug)]
pub struct TierReading {
    pub name: String,
    pub counters: TierCounters,
    pub usage: TierUsage,
}

impl TierReading {
    pub(crate) fn of(tier: &GuardedTier) -> Self {
        TierReading { name: tier.name().into(), counters: tier.counters(), usage: tier.usage() }
    }
}

/// What is below host memory.
pub(crate) struct LowerLevels {
    /// The fastest first.
    pub(crate) tiers: Vec<Arc<GuardedTier>>,
    /// Where there is a disk.
    pub(crate) handles: Option<Arc<DiskHandles>>,
}

/// Sizes that a device has settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LevelSizes {
    pub(crate) pages: usize,
    pub(crate) store_pages: usize,
    pub(crate) page_bytes: usize,
    pub(crate) is_gpu: bool,
}

/// Bytes of one copy ahead of need, or of one read or write of a tier: long enough for the link and
/// a disk, short enough that what waits for the first of it does not wait for long. The CPU copies
/// between two steps.
const GPU_BATCH_BYTES: usize = 64 << 20;
const CPU_BATCH_BYTES: usize = 16 << 20;
/// On the CPU a step that has begun runs to its end: what comes from a disk in this time is there
/// sooner than a part of it is computed.
const CPU_WAIT_MS: u64 = 250;

impl KvTiers {
    /// Opens the levels below host memory, and the handles on the disk.
    pub(crate) fn open_lower(&self, page_bytes: usize) -> Result<LowerLevels, Error> {
        let record_bytes = record::HEADER_BYTES + page_bytes;
        let mut tiers: Vec<Box<dyn PageTier>> = Vec::new();
        let mut handles = None;
        if let Some(DiskLevel { folder, bytes }) = &self.disk {
            let tier = Arc::new(DiskTier::open(DiskTierConfig {
                folder: folder.clone(),
                budget_bytes: *bytes,
                record_bytes,
                placement: self.placement,
            })?);
            tiers.push(Box::new(Arc::clone(&tier)));
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let now = now.as_millis() as u64;
            handles = Some(Arc::new(DiskHandles::open(folder, *bytes, tier, now)?));
        }
        if !self.redis.is_empty() {
            let config = RedisTierConfig::new(self.redis.clone(), record_bytes);
            tiers.push(Box::new(RedisTier::connect(config)?));
        }
        let breaker = BreakerConfig { seed: u64::from(std::process::id()), ..Default::default() };
        let guarded = |tier| Arc::new(GuardedTier::new(tier, breaker));
        Ok(LowerLevels { tiers: tiers.into_iter().map(guarded).collect(), handles })
    }

    /// How an engine uses the levels.
    pub(crate) fn config(&self, sizes: LevelSizes, lower: &[Arc<GuardedTier>]) -> TierConfig {
        let LevelSizes { pages, store_pages, page_bytes, is_gpu } = sizes;
        let host_is_level = is_gpu || self.host_bytes.is_some();
        let demotes = 0 < store_pages && (host_is_level || !lower.is_empty());
        let batch_bytes = if is_gpu { GPU_BATCH_BYTES } else { CPU_BATCH_BYTES };
        TierConfig {
            placement: self.placement,
            // All that is idle is copied ahead of need, so that a long prompt loses nothing; the
            // other half of the store keeps what has left the device.
            device_reserve: if demotes { pages.min(store_pages / 2) } else { 0 },
            // What is only passing through goes on at once.
            store_reserve: if host_is_level { store_pages / 2 } else { store_pages },
            writes_through: self.write_through && demotes,
            wait_ms: self.wait_ms.unwrap_or(if is_gpu { 0 } else { CPU_WAIT_MS }),
            batch_pages: (batch_bytes / page_bytes).max(1),
            pin_pages: self.pin_bytes.map_or(store_pages / 2, |bytes| bytes / page_bytes),
            page_bytes,
            lower: lower.iter().map(|tier| tier.listed()).collect(),
        }
    }
}

/// Bytes of host memory that could be taken now.
pub(crate) fn free_host_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok());
    kib.unwrap_or(0) * 1024
}
