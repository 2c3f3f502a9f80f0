//! What can go wrong when a model is tuned.

use std::path::PathBuf;

use terrace_cache::policy::PolicyError;
use terrace_golden::GoldenFileError;

use crate::data::DataError;
use crate::record::RecordError;
use crate::run::StateError;

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
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("the run's state in {} is of another model: {problem}", folder.display())]
    StateArrays { folder: PathBuf, problem: String },
    #[error(
        "step {step} has a loss of {loss} and a gradient of norm {gradient_norm}: give a smaller \
         optimizer.learning_rate, or train.max_grad_norm"
    )]
    Diverged { step: u64, loss: f64, gradient_norm: f64 },
    #[error("cannot write {}: {error}", path.display())]
    Write { path: PathBuf, error: std::io::Error },
    #[error("the targets of a sequence do not fit the head model: {0}")]
    Targets(String),
    #[error("no answers can be generated: {0}")]
    Generate(String),
    #[error("{what} cannot be tuned: {why}")]
    Unsupported { what: String, why: &'static str },
}

impl Error {
    pub fn is_out_of_memory(&self) -> bool {
        let of_device = |error: &terrace_device::Error| {
            use terrace_device::Error::*;
            matches!(error, OutOfMemory { .. } | OutOfDeviceMemory { .. } | OverDeviceShare { .. })
        };
        match self {
            Error::Device(error) | Error::Kernels(terrace_kernels::Error::Device(error)) => {
                of_device(error)
            }
            _ => false,
        }
    }
}
