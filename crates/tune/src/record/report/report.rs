//! What a run has recorded so far, read from its folder and written there as `report.html`.

use std::path::{Path, PathBuf};

use super::page::Page;
use crate::record::csv_file::read_lines;
use crate::record::csv_row::CsvRow;
use crate::record::record_error::RecordError;
use crate::record::step_record::StepRecord;
use crate::record::validation_record::ValidationRecord;
use crate::saved_file::save_file;

pub struct Report {
    folder: PathBuf,
    /// What was run, for the table on top: names and values.
    settings: Vec<(String, String)>,
    steps: Vec<StepRecord>,
    validations: Vec<ValidationRecord>,
}

const FILE: &str = "report.html";

impl Report {
    /// Also of a run that goes on.
    pub fn read(folder: &Path, settings: Vec<(String, String)>) -> Result<Self, RecordError> {
        let steps = rows(folder)?;
        let steps = steps.ok_or_else(|| RecordError::NoRun { path: folder.join(StepRecord::FILE) });
        let validations = rows(folder)?.unwrap_or_default();
        Ok(Report { folder: folder.into(), settings, steps: steps?, validations })
    }

    /// The file is there whole, or as it was. Gives its path.
    pub fn write(&self) -> Result<PathBuf, RecordError> {
        let path = self.folder.join(FILE);
        match save_file(&path, self.html().as_bytes()) {
            Ok(()) => Ok(path),
            Err(error) => Err(RecordError::Write { path, error }),
        }
    }

    pub fn html(&self) -> String {
        let name = self.folder.file_name().map(|name| name.to_string_lossy());
        let title = name.map_or("Tuning run".to_owned(), |name| format!("Tuning run {name}"));
        let Report { settings, steps, validations, .. } = self;
        Page { title, settings, steps, validations }.to_string()
    }
}

/// `None` where there is no file.
fn rows<R: CsvRow>(folder: &Path) -> Result<Option<Vec<R>>, RecordError> {
    let lines = read_lines::<R>(&folder.join(R::FILE))?;
    Ok(lines.map(|lines| lines.into_iter().map(|line| line.row).collect()))
}
