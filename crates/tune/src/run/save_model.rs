//! The form in which a model is saved.

use std::path::PathBuf;

use terrace_kernels::Ops;

use crate::error::Error;
use crate::model::TunedModel;

pub trait SaveModel {
    /// Writes what was trained.
    fn save(&self, model: &mut TunedModel, ops: &Ops, at: SavedAt) -> Result<PathBuf, Error>;
}

/// Which of a run's models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedAt {
    Step(u64),
    /// Of all validations the one with the lowest loss.
    Best,
    Last,
    /// To be generated with, and removed.
    Sampled,
}
