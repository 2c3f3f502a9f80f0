//! `terrace compile-grammar`: the process in which a server tries grammars first.
//!
//! Sets its own limits of processor time and memory, so that a grammar that takes too much ends
//! this process and nothing else. The server says which limit it was.

use std::ffi::OsString;
use std::{fs, io};

use anyhow::Result;
use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use terrace_engine::guidance::{CHECK_CPU_SECONDS, CHECK_MEMORY_BYTES, check_grammars};

pub const NAME: &str = "compile-grammar";

/// Outputs that are under way go first: where all cores are busy, a third of their share is left
/// for this.
const NICENESS: i32 = 5;

/// What a server runs: this program, also when its file has been replaced meanwhile.
pub fn command() -> io::Result<Vec<OsString>> {
    let program = match cfg!(target_os = "linux") {
        true => "/proc/self/exe".into(),
        false => std::env::current_exe()?.into_os_string(),
    };
    Ok(vec![program, NAME.into()])
}

pub fn run() -> Result<()> {
    // What ends it is expected, and no core file is wanted.
    limit(Resource::Core, 0)?;
    nice(NICENESS)?;
    let mut is_first = true;
    let set_limits = move || {
        if std::mem::take(&mut is_first) {
            limit_memory()?;
        }
        limit_time()
    };
    Ok(check_grammars(io::stdin(), io::stdout(), set_limits)?)
}

/// Counted for the whole process, so the limit moves on with each grammar.
fn limit_time() -> io::Result<()> {
    let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec;
    // The first second that has begun counts as over.
    limit(Resource::Cpu, used.cast_unsigned() + 1 + CHECK_CPU_SECONDS)
}

/// Counted from what the process has when its vocabulary is ready.
fn limit_memory() -> io::Result<()> {
    let Some(taken) = data_bytes() else { return Ok(()) };
    limit(Resource::Data, taken + CHECK_MEMORY_BYTES)
}

fn limit(resource: Resource, value: u64) -> io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(resource);
    let current = Some(value.min(maximum.unwrap_or(u64::MAX)));
    Ok(setrlimit(resource, Rlimit { current, maximum })?)
}

/// Memory that the system counts for `Resource::Data`; `None` where it does not say.
fn data_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
