//! What can be wrong with golden data, or with the device that is held to it.

use std::path::PathBuf;

use crate::policy::PolicyError;

#[derive(Debug, thiserror::Error)]
pub enum GoldenError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is no golden data: {problem}", path.display())]
    Malformed { path: PathBuf, problem: String },
    #[error("{case}: {source}")]
    Policy { case: String, source: PolicyError },
    #[error(transparent)]
    Device(#[from] terrace_device::Error),
}
