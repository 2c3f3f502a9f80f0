//! All log files of a data set, row by row, in their order.

use std::path::{Path, PathBuf};

use super::log_layout::{Delimiter, LogLayout, Role, RowError};
use crate::dataset_error::DatasetError;
use crate::event::Event;
use crate::text::LineReader;

/// Files of one form.
#[derive(Clone, Debug)]
pub struct LogFiles {
    pub paths: Vec<PathBuf>,
    pub delimiter: Delimiter,
    /// By their names where there is a header, else in their order.
    pub columns: &'static [(&'static str, Role)],
    pub has_header: bool,
}

impl LogFiles {
    /// An event knows its file by a byte.
    pub const MOST: usize = 256;

    pub fn bytes(&self) -> Result<u64, DatasetError> {
        let size = |path: &PathBuf| {
            let metadata = path.metadata().map_err(DatasetError::io("open", path))?;
            Ok(metadata.len())
        };
        self.paths.iter().map(size).sum()
    }

    /// Reads all rows. `report` is given how many bytes have been read, now and then.
    pub fn for_each(
        &self,
        report: &dyn Fn(u64),
        mut take: impl FnMut(Event) -> Result<(), DatasetError>,
    ) -> Result<(), DatasetError> {
        const ROWS_PER_REPORT: u64 = 1 << 14;
        let mut bytes_before = 0;
        for (file, path) in self.paths.iter().enumerate() {
            let mut lines = LineReader::open(path)?;
            let Some(layout) = self.layout(&mut lines)? else { continue };
            let file = u8::try_from(file).expect("whoever listed them has counted");
            while let Some(line) = lines.next_line()? {
                let event = layout.event(line);
                let event = event.map_err(|error| in_file(error, &layout, path, lines.number()))?;
                take(Event { file, ..event })?;
                if lines.number() % ROWS_PER_REPORT == 0 {
                    report(bytes_before + lines.bytes());
                }
            }
            bytes_before += lines.bytes();
            report(bytes_before);
        }
        Ok(())
    }

    /// `None` of an empty file.
    fn layout(&self, lines: &mut LineReader) -> Result<Option<LogLayout>, DatasetError> {
        if !self.has_header {
            return Ok(Some(LogLayout::fixed(self.delimiter, self.columns)));
        }
        let path = lines.path().to_owned();
        let Some(header) = lines.next_line()? else { return Ok(None) };
        LogLayout::from_header(self.delimiter, self.columns, header, &path).map(Some)
    }
}

fn in_file(error: RowError, layout: &LogLayout, path: &Path, line: u64) -> DatasetError {
    let path = path.to_owned();
    match error {
        RowError::Field { column, expected, found } => {
            let column = layout.columns()[column].name.clone();
            DatasetError::BadField { path, line, column, expected, found }
        }
        RowError::Columns { found } => {
            DatasetError::ColumnCount { path, line, expected: layout.columns().len(), found }
        }
    }
}
