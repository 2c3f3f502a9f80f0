//! Which instructions the CPU's ops may use.

/// Ordered from plain to fast. Results are bit for bit repeatable within a level, not across.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CpuLevel {
    /// Plain Rust: the specification, for every processor.
    Reference,
}

impl CpuLevel {
    /// The best level of this processor.
    pub fn detect() -> CpuLevel {
        CpuLevel::Reference
    }

    /// All levels of this processor, plain first.
    pub fn available() -> Vec<CpuLevel> {
        vec![CpuLevel::Reference]
    }

    pub const fn name(self) -> &'static str {
        match self {
            CpuLevel::Reference => "reference",
        }
    }
}
