//! What can go wrong when a model is tuned.

use terrace_cache::policy::PolicyError;
use terrace_golden::GoldenFileError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Device(#[from] terrace_device::Error),
    #[error(transparent)]
    Kernels(#[from] terrace_kernels::Error),
    #[error(transparent)]
    Model(#[from] terrace_model::Error),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Golden(#[from] GoldenFileError),
    #[error("{argument} is {value}; it must be {wanted}")]
    BadArgument { argument: &'static str, value: String, wanted: String },
    #[error("{what} cannot be tuned: {why}")]
    Unsupported { what: String, why: &'static str },
}
