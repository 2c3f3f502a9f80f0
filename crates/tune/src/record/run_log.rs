//! Where the records of a run go.

use super::record_error::RecordError;
use super::step_record::StepRecord;
use super::validation_record::ValidationRecord;

/// Steps rise. What was written is there for others to read when a call returns.
pub trait RunLog {
    fn step(&mut self, record: &StepRecord) -> Result<(), RecordError>;

    fn validation(&mut self, record: &ValidationRecord) -> Result<(), RecordError>;
}
