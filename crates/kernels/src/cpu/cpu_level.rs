//! Which instructions the CPU's ops may use.

/// Ordered from plain to fast. Results are bit for bit repeatable within a level, not across.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CpuLevel {
    /// Plain Rust: the specification, for every processor.
    Reference,
    /// Eight numbers at a time: AVX2, FMA and F16C.
    Avx2,
    /// Sixteen numbers at a time: AVX-512 F, BW, DQ and VL.
    Avx512,
    /// With products of small integers (VNNI) and of bf16.
    Avx512Vnni,
    /// With matrix units for prompts: AMX on bf16.
    Amx,
}

impl CpuLevel {
    pub const ALL: [CpuLevel; 5] = [
        CpuLevel::Reference,
        CpuLevel::Avx2,
        CpuLevel::Avx512,
        CpuLevel::Avx512Vnni,
        CpuLevel::Amx,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            CpuLevel::Reference => "reference",
            CpuLevel::Avx2 => "avx2",
            CpuLevel::Avx512 => "avx512",
            CpuLevel::Avx512Vnni => "avx512_vnni",
            CpuLevel::Amx => "amx",
        }
    }
}
