//! A CSV file of a run: a header line, then a line a record.
//!
//! A line is written by one call, and counts once its end is there. What stands behind the last end
//! is half of a line, left by a process that was killed: it is never read, and cut off by resuming.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use super::csv_row::CsvRow;
use super::record_error::RecordError;
use super::run_start::RunStart;

pub struct CsvFile<R> {
    path: PathBuf,
    file: File,
    row: PhantomData<R>,
}

/// A record, and where its line ends in the file.
pub struct CsvLine<R> {
    pub row: R,
    end: u64,
}

impl<R: CsvRow> CsvFile<R> {
    pub fn open(folder: &Path, start: RunStart) -> Result<Self, RecordError> {
        let path = folder.join(R::FILE);
        let mut options = OpenOptions::new();
        options.append(true);
        let kept_bytes = match start {
            RunStart::New => {
                options.create_new(true);
                0
            }
            RunStart::Resumed { step } => {
                options.create(true);
                bytes_through::<R>(&path, step)?
            }
        };
        let opened = options.open(&path).and_then(|file| {
            // One call, so that a process killed here leaves the old end or the new one.
            file.set_len(kept_bytes)?;
            Ok(file)
        });
        let file = opened.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => RecordError::Exists { path: path.clone() },
            _ => RecordError::Write { path: path.clone(), error },
        })?;
        let mut opened = CsvFile { path, file, row: PhantomData };
        if kept_bytes == 0 {
            opened.write(format!("{}\n", R::COLUMNS.join(",")).as_bytes())?;
        }
        Ok(opened)
    }

    pub fn append(&mut self, row: &R) -> Result<(), RecordError> {
        let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
        writer.serialize(row).expect("a record is flat");
        self.write(&writer.into_inner().expect("memory takes all"))
    }

    fn write(&mut self, line: &[u8]) -> Result<(), RecordError> {
        let written = self.file.write_all(line);
        written.map_err(|error| RecordError::Write { path: self.path.clone(), error })
    }
}

/// Where the lines end that a run resumed after `step` keeps; 0 where it keeps no record.
fn bytes_through<R: CsvRow>(path: &Path, step: u64) -> Result<u64, RecordError> {
    let lines = read_lines::<R>(path)?.unwrap_or_default();
    let kept = lines.iter().take_while(|line| line.row.step() <= step);
    Ok(kept.last().map_or(0, |line| line.end))
}

/// The whole lines of a file; `None` where there is no file.
pub fn read_lines<R: CsvRow>(path: &Path) -> Result<Option<Vec<CsvLine<R>>>, RecordError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RecordError::Read { path: path.into(), error }),
    };
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let of_csv = |error: csv::Error| line_error(path, &error);
    let mut reader = csv::ReaderBuilder::new().quoting(false).from_reader(&bytes[..whole]);
    let columns = reader.headers().map_err(of_csv)?;
    if !columns.is_empty() && columns != *R::COLUMNS {
        let problem = format!(
            "its columns are not those that Terrace writes, {}: move the file away",
            R::COLUMNS.join(",")
        );
        return Err(RecordError::Line { path: path.into(), line: 1, problem });
    }
    let (mut lines, mut record) = (Vec::new(), csv::StringRecord::new());
    while reader.read_record(&mut record).map_err(of_csv)? {
        let row = record.deserialize(None).map_err(of_csv)?;
        lines.push(CsvLine { row, end: reader.position().byte() });
    }
    Ok(Some(lines))
}

fn line_error(path: &Path, error: &csv::Error) -> RecordError {
    let problem = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("it has {len} values, and the header {expected_len}")
        }
        csv::ErrorKind::Deserialize { err, .. } => match err.field() {
            Some(field) => format!("its value {}: {}", field + 1, err.kind()),
            None => err.to_string(),
        },
        _ => error.to_string(),
    };
    let line = error.position().map_or(0, csv::Position::line);
    let problem = format!("{problem}; repair the line, or move the file away");
    RecordError::Line { path: path.into(), line, problem }
}
