//! Most memory that the process has had.

/// 0 where the system does not say.
pub(crate) fn memory_peak_bytes() -> u64 {
    read().unwrap_or(0)
}

fn read() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
