//! How the CPU's ops are chosen, and which arithmetic they use.

use super::cpu_level::CpuLevel;

/// How the CPU's ops are chosen.
#[derive(Clone, Copy, Debug)]
pub struct CpuOptions {
    /// Worker threads, the caller's included.
    pub threads: usize,
    /// Instructions to use; `None` takes the best this CPU has.
    pub level: Option<CpuLevel>,
    pub compute: Compute,
}

/// The arithmetic of products; all else is in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compute {
    /// Weights are packed for the processor. Generated tokens meet them as 16-bit integers,
    /// prompts as bf16.
    Fast,
    /// Weights stay as they are, and are unpacked and multiplied in f32.
    F32,
}
