//! The records of a run as two CSV files, `metrics.csv` and `validation.csv`.
//!
//! Numbers are written so that they read back as the same bits. A run that was killed and resumed
//! leaves the files that it would have left without that.

use std::path::Path;

use super::csv_file::CsvFile;
use super::record_error::RecordError;
use super::run_log::RunLog;
use super::run_start::RunStart;
use super::step_record::StepRecord;
use super::validation_record::ValidationRecord;

pub struct CsvLog {
    steps: CsvFile<StepRecord>,
    validations: CsvFile<ValidationRecord>,
}

impl CsvLog {
    pub fn open(folder: &Path, start: RunStart) -> Result<Self, RecordError> {
        std::fs::create_dir_all(folder)
            .map_err(|error| RecordError::Write { path: folder.into(), error })?;
        let (steps, validations) = (CsvFile::open(folder, start)?, CsvFile::open(folder, start)?);
        Ok(CsvLog { steps, validations })
    }
}

impl RunLog for CsvLog {
    fn step(&mut self, record: &StepRecord) -> Result<(), RecordError> {
        self.steps.append(record)
    }

    fn validation(&mut self, record: &ValidationRecord) -> Result<(), RecordError> {
        self.validations.append(record)
    }
}
