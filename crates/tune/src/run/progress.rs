//! How far a run has come.

use serde::{Deserialize, Serialize};

use super::early_stopping::Validations;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Steps that are done.
    pub step: u64,
    /// The epoch of the next micro-batch, from 0 on, and that micro-batch's place in it.
    pub epoch: usize,
    pub(crate) micro_batch: usize,
    /// Inputs of all steps, padding included.
    pub tokens: u64,
    /// That steps have taken.
    pub seconds: f64,
    pub(crate) validations: Validations,
}
