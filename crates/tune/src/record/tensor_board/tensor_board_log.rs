//! The records of a run as an event file of TensorBoard.
//!
//! A resumed run writes a file of its own beside those that are there. It begins with a START
//! event, by which readers drop what the others have of the steps that the run takes again.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::event::{EventContent, event};
use super::framed_record::framed;
use crate::record::record_error::RecordError;
use crate::record::run_log::RunLog;
use crate::record::run_start::RunStart;
use crate::record::step_record::StepRecord;
use crate::record::validation_record::ValidationRecord;

pub struct TensorBoardLog {
    path: PathBuf,
    file: File,
}

/// TensorBoard knows event files by it.
const PREFIX: &str = "events.out.tfevents.";

impl TensorBoardLog {
    pub fn open(folder: &Path, start: RunStart) -> Result<Self, RecordError> {
        let failed = |error| RecordError::Write { path: folder.into(), error };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let earlier = event_files(folder)
            .map_err(|error| RecordError::Read { path: folder.into(), error })?;
        if let (RunStart::New, Some(name)) = (start, earlier.first()) {
            return Err(RecordError::Exists { path: folder.join(name) });
        }
        let path = folder.join(next_name(&earlier));
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = file.map_err(|error| RecordError::Write { path: path.clone(), error })?;
        let mut log = TensorBoardLog { path, file };
        log.write(0, &EventContent::FileVersion)?;
        if let RunStart::Resumed { step } = start {
            log.write(step + 1, &EventContent::Start)?;
        }
        Ok(log)
    }

    fn write(&mut self, step: u64, content: &EventContent<'_>) -> Result<(), RecordError> {
        let written = self.file.write_all(&framed(&event(seconds_since_1970(), step, content)));
        written.map_err(|error| RecordError::Write { path: self.path.clone(), error })
    }
}

impl RunLog for TensorBoardLog {
    fn step(&mut self, record: &StepRecord) -> Result<(), RecordError> {
        let scalars = [
            ("train/loss", record.loss),
            ("train/learning_rate", record.learning_rate),
            ("train/gradient_norm", record.gradient_norm),
            ("train/tokens_per_second", record.tokens_per_second()),
            ("train/peak_memory_bytes", record.peak_memory_bytes as f64),
        ];
        self.write(record.step, &EventContent::Scalars(&scalars))
    }

    fn validation(&mut self, record: &ValidationRecord) -> Result<(), RecordError> {
        let mut scalars = vec![("validation/loss", record.loss)];
        scalars.extend(record.metric.map(|metric| ("validation/metric", metric)));
        self.write(record.step, &EventContent::Scalars(&scalars))
    }
}

/// The names of the event files in a folder.
fn event_files(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        names.extend(name.to_str().filter(|name| name.starts_with(PREFIX)).map(str::to_owned));
    }
    Ok(names)
}

/// Behind all others in the order of names, in which TensorBoard reads the files of a folder: also
/// within the same second, and after the clock was set back.
fn next_name(earlier: &[String]) -> String {
    let last = earlier.iter().filter_map(|name| seconds_of(name)).max();
    let seconds = last.map_or(0, |last| last.saturating_add(1)).max(seconds_since_1970() as u64);
    let host = host_name();
    format!("{PREFIX}{seconds:010}.{host}.{}", std::process::id())
}

fn seconds_of(name: &str) -> Option<u64> {
    name.strip_prefix(PREFIX)?.split('.').next()?.parse().ok()
}

fn host_name() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

fn seconds_since_1970() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |duration| duration.as_secs_f64())
}
