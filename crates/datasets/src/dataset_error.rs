//! What can be wrong with a data set.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },

    #[error("{dataset} has no file {pattern} in {}; {remedy}", folder.display())]
    MissingFile { dataset: String, pattern: String, folder: PathBuf, remedy: String },

    #[error("{}: no column {column:?}; the header has {header}", path.display())]
    MissingColumn { path: PathBuf, column: String, header: String },

    #[error(
        "{}, line {line}, column {column}: expected {expected}, found {found:?}",
        path.display()
    )]
    BadField { path: PathBuf, line: u64, column: String, expected: &'static str, found: String },

    #[error("{}, line {line}: expected {expected} columns, found {found}", path.display())]
    ColumnCount { path: PathBuf, line: u64, expected: usize, found: usize },

    #[error(
        "{}, line {line}: longer than {most} bytes; it is no table of this data set",
        path.display()
    )]
    LongLine { path: PathBuf, line: u64, most: usize },

    #[error(
        "{}, line {line}: user {user} has a row already; each user may have one",
        path.display()
    )]
    RepeatedUser { path: PathBuf, line: u64, user: i64 },

    #[error("{}, line {line}: {why}", path.display())]
    BadTable { path: PathBuf, line: u64, why: String },

    #[error("no user is in all of {files} log files{features}; nothing was written")]
    NobodyLeft { files: usize, features: &'static str },

    #[error("{dataset} has {found} log files in {}; {most} are the most", folder.display())]
    TooManyFiles { dataset: String, folder: PathBuf, found: usize, most: usize },

    #[error("{dataset} has no times, so it has no intervals; leave --inference out")]
    NoTimes { dataset: String },
}

impl DatasetError {
    /// For `map_err`.
    pub fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| DatasetError::Io { what, path: path.to_owned(), source }
    }
}

/// The first part of a field, for messages.
pub fn excerpt(field: &[u8]) -> String {
    const BYTES: usize = 40;
    String::from_utf8_lossy(&field[..field.len().min(BYTES)]).into_owned()
}
