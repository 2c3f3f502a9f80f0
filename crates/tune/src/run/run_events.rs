//! What is reported while a run goes on.

use std::path::Path;

use super::progress::Progress;
use crate::error::Error;
use crate::record::{StepRecord, ValidationRecord};

pub trait RunEvents {
    /// From where on, and how many steps there are at most.
    fn begin(&mut self, progress: &Progress, steps: u64) -> Result<(), Error>;
    fn step(&mut self, record: &StepRecord) -> Result<(), Error>;
    fn validation_begins(&mut self, batches: usize);
    fn validation_batch(&mut self);
    fn validation(&mut self, record: &ValidationRecord) -> Result<(), Error>;
    fn saved(&mut self, path: &Path);
    fn note(&mut self, text: &str);
    /// Whether the user asked for an end: it comes after the step, with a saved state.
    fn is_asked_to_stop(&self) -> bool;
}
