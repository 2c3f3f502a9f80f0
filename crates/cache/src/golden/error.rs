//! What can be wrong with golden data, or with the device that is held to it.

use terrace_golden::GoldenFileError;

use crate::policy::PolicyError;

#[derive(Debug, thiserror::Error)]
pub enum GoldenError {
    #[error(transparent)]
    File(#[from] GoldenFileError),
    #[error("{case}: {source}")]
    Policy { case: String, source: PolicyError },
    #[error(transparent)]
    Device(#[from] terrace_device::Error),
}
