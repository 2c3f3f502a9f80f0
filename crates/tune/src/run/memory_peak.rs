//! Most memory that a run has had where it computes.

use terrace_device::Device;
use terrace_kernels::TuneOps;

/// Of a GPU, what was taken of its memory: what a pass gives back stays taken for the next one. On
/// a CPU the process's, 0 where the system does not say.
pub(crate) fn memory_peak_bytes(ops: &TuneOps<'_>) -> u64 {
    match ops.device() {
        Device::Cuda(device) => device.taken_bytes() as u64,
        Device::Cpu => read().unwrap_or(0),
    }
}

fn read() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
