//! How much memory the process has, under the name that Prometheus' own clients use.

use std::fs;

use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, Opts, Registry};

use crate::metrics::registered::registered;

/// Nothing where the system does not say: only Linux has the file.
pub fn gather() -> Vec<MetricFamily> {
    let Some(bytes) = resident_bytes() else { return Vec::new() };
    let registry = Registry::new();
    let resident =
        Opts::new("process_resident_memory_bytes", "Memory of the process that is in RAM.");
    let resident = registered(&registry, IntGauge::with_opts(resident));
    resident.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    registry.gather()
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}
