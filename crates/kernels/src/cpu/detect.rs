//! Which levels this processor has.

use super::cpu_level::CpuLevel;
use super::lanes::Simd;

impl CpuLevel {
    /// The best level of this processor.
    pub fn detect() -> CpuLevel {
        let levels = Self::available();
        levels.into_iter().max().expect("every processor has the reference level")
    }

    /// All levels of this processor, plain first.
    pub fn available() -> Vec<CpuLevel> {
        Self::ALL.into_iter().filter(|&level| Simd::detect(level).is_some()).collect()
    }

    /// Whether this processor has matrix units that the operating system keeps from us.
    pub fn amx_is_refused() -> bool {
        Simd::amx_is_refused()
    }
}
