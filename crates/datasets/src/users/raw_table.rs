//! A file with a row for each user, as bytes.

use std::collections::HashSet;
use std::path::Path;

use crate::dataset_error::{DatasetError, excerpt};
use crate::log::Delimiter;
use crate::text::{LineReader, whole_number};

/// How a table is written.
#[derive(Clone, Copy, Debug)]
pub enum TableForm {
    /// With a header, and quotes where a cell has the delimiter in it.
    Csv { delimiter: u8, user: &'static str },
    /// Without a header and quotes, the user first.
    Plain { delimiter: Delimiter, columns: &'static [&'static str] },
}

/// All rows, in their order.
#[derive(Debug)]
pub struct RawTable {
    /// Of the columns behind the user.
    pub names: Vec<String>,
    pub users: Vec<i64>,
    pub rows: Vec<Vec<Box<[u8]>>>,
}

impl RawTable {
    pub fn read(path: &Path, form: TableForm) -> Result<Self, DatasetError> {
        match form {
            TableForm::Csv { delimiter, user } => Self::read_csv(path, delimiter, user),
            TableForm::Plain { delimiter, columns } => Self::read_plain(path, delimiter, columns),
        }
    }

    fn read_csv(path: &Path, delimiter: u8, user: &str) -> Result<Self, DatasetError> {
        let mut options = csv::ReaderBuilder::new();
        let reader = options.delimiter(delimiter).from_path(path);
        let mut reader = reader.map_err(|error| of_csv(error, path))?;
        let header = reader.byte_headers().map_err(|error| of_csv(error, path))?;
        let mut names: Vec<String> =
            header.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        let Some(user_at) = names.iter().position(|name| name == user) else {
            let header = excerpt(names.join(", ").as_bytes());
            let (path, column) = (path.to_owned(), user.to_owned());
            return Err(DatasetError::MissingColumn { path, column, header });
        };
        names.remove(user_at);
        let mut table = Rows::new(path, user);
        let mut record = csv::ByteRecord::new();
        while reader.read_byte_record(&mut record).map_err(|error| of_csv(error, path))? {
            let line = record.position().map_or(0, csv::Position::line);
            let others = record.iter().enumerate().filter(|(at, _)| *at != user_at);
            table.push(line, &record[user_at], others.map(|(_, cell)| cell))?;
        }
        Ok(RawTable { names, users: table.users, rows: table.rows })
    }

    fn read_plain(
        path: &Path,
        delimiter: Delimiter,
        columns: &[&str],
    ) -> Result<Self, DatasetError> {
        let mut lines = LineReader::open(path)?;
        let mut table = Rows::new(path, columns[0]);
        while let Some(row) = lines.next_line()?.map(<[u8]>::to_vec) {
            let (line, cells) = (lines.number(), delimiter.fields(&row));
            let (expected, found) = (columns.len(), cells.len());
            if expected != found {
                let path = path.to_owned();
                return Err(DatasetError::ColumnCount { path, line, expected, found });
            }
            table.push(line, cells[0], cells[1..].iter().copied())?;
        }
        let names = columns[1..].iter().map(|name| (*name).to_owned()).collect();
        Ok(RawTable { names, users: table.users, rows: table.rows })
    }

    pub fn column(&self, at: usize) -> Vec<&[u8]> {
        self.rows.iter().map(|row| &*row[at]).collect()
    }
}

/// Rows on their way into a table.
struct Rows<'a> {
    path: &'a Path,
    user_column: &'a str,
    known: HashSet<i64>,
    users: Vec<i64>,
    rows: Vec<Vec<Box<[u8]>>>,
}

impl<'a> Rows<'a> {
    fn new(path: &'a Path, user_column: &'a str) -> Self {
        let (known, users, rows) = (HashSet::new(), Vec::new(), Vec::new());
        Rows { path, user_column, known, users, rows }
    }

    fn push<'c>(
        &mut self,
        line: u64,
        user: &[u8],
        cells: impl Iterator<Item = &'c [u8]>,
    ) -> Result<(), DatasetError> {
        let number = whole_number(user).ok_or_else(|| DatasetError::BadField {
            path: self.path.to_owned(),
            line,
            column: self.user_column.to_owned(),
            expected: "a whole number",
            found: excerpt(user),
        })?;
        if !self.known.insert(number) {
            let path = self.path.to_owned();
            return Err(DatasetError::RepeatedUser { path, line, user: number });
        }
        self.users.push(number);
        self.rows.push(cells.map(Box::from).collect());
        Ok(())
    }
}

pub fn of_csv(error: csv::Error, path: &Path) -> DatasetError {
    let line = error.position().map_or(0, csv::Position::line);
    let path = path.to_owned();
    match error.into_kind() {
        csv::ErrorKind::Io(source) => DatasetError::Io { what: "read", path, source },
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            let (expected, found) = (expected_len as usize, len as usize);
            DatasetError::ColumnCount { path, line, expected, found }
        }
        other => DatasetError::BadTable { path, line, why: format!("{other:?}") },
    }
}
