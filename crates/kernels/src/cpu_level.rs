//! Which instructions the CPU's ops may use.

use crate::lanes::Simd;

/// Ordered from plain to fast. Results are bit for bit repeatable within a level, not across.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CpuLevel {
    /// Plain Rust: the specification, for every processor.
    Reference,
    /// Eight numbers at a time: AVX2, FMA and F16C.
    Avx2,
    /// Sixteen numbers at a time: AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl CpuLevel {
    pub const ALL: [CpuLevel; 3] = [CpuLevel::Reference, CpuLevel::Avx2, CpuLevel::Avx512];

    /// The best level of this processor.
    pub fn detect() -> CpuLevel {
        let levels = Self::available();
        levels.into_iter().max().expect("every processor has the reference level")
    }

    /// All levels of this processor, plain first.
    pub fn available() -> Vec<CpuLevel> {
        Self::ALL.into_iter().filter(|&level| Simd::detect(level).is_some()).collect()
    }

    pub const fn name(self) -> &'static str {
        match self {
            CpuLevel::Reference => "reference",
            CpuLevel::Avx2 => "avx2",
            CpuLevel::Avx512 => "avx512",
        }
    }
}
