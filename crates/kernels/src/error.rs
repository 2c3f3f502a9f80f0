//! What can go wrong when the op table is built. Ops themselves do not fail.

use crate::cpu_level::CpuLevel;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Device(#[from] terrace_device::Error),
    #[error(
        "this cpu has no {wanted}; choose {best} or leave the level unset",
        wanted = .wanted.name(), best = .best.name()
    )]
    LevelMissing { wanted: CpuLevel, best: CpuLevel },
}
