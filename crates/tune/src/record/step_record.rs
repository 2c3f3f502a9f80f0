//! What is known of a step of the optimiser once it is done.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// From 1 on.
    pub step: u64,
    /// Passes over the training cases that are done, with the fraction of the one under way.
    pub epoch: f64,
    pub loss: f64,
    pub learning_rate: f64,
    pub gradient_norm: f64,
    /// Of this step.
    pub tokens: u64,
    /// Of this step.
    pub seconds: f64,
    /// Of the GPU that computes, or on a CPU of the process.
    pub peak_memory_bytes: u64,
}

impl StepRecord {
    /// Not finite for a step that took no time.
    pub fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / self.seconds
    }
}
