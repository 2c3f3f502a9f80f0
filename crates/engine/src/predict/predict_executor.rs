//! What computes batches of one instance of a model.

use std::time::Instant;

use super::samples::Samples;
use crate::error::Error;

pub trait PredictExecutor: Send {
    /// out: `[samples, outputs]`
    fn run(&mut self, samples: &Samples, out: &mut [f32]) -> Result<Computed, Error>;

    /// From the next batch on it computes with other dense weights; after an error with those
    /// before.
    fn replace_weights(&mut self, safetensors: &[u8]) -> Result<(), Error>;
}

/// When the stages of a batch were over.
#[derive(Clone, Copy, Debug)]
pub struct Computed {
    /// Rows and features were together.
    pub input: Instant,
    /// The numbers were there.
    pub compute: Instant,
}
