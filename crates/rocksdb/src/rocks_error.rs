//! Why RocksDB did not do what it was asked, so that a caller can tell what to do about it.
//!
//! RocksDB's C API gives errors as texts that begin with their kind; they are read here and
//! nowhere else, and kept whole in the message.

use std::path::PathBuf;

use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RocksError {
    /// There is none on this machine.
    #[error(
        "no RocksDB library is found ({looked}); install it (Debian 12: apt-get install \
         librocksdb7.8, Fedora: dnf install rocksdb, macOS: brew install rocksdb) or name the \
         folder that has it"
    )]
    LibraryNotFound { looked: String },
    /// There is one, and it does not load.
    #[error("the RocksDB library {path} does not load: {reason}")]
    LibraryUnusable { path: PathBuf, reason: String },
    /// What was loaded is too old, or no RocksDB.
    #[error("{path} has no function {function}; RocksDB 6.11 or newer is needed")]
    FunctionMissing { path: PathBuf, function: &'static str },
    #[error(
        "{0}; the database is open elsewhere: end that process, or give each a folder of its own"
    )]
    Locked(String),
    #[error("{0}; the database was opened to read only")]
    ReadOnly(String),
    #[error("{0}; make room on its disk")]
    DiskFull(String),
    #[error("{0}; restore its folder, or delete it and fill it again")]
    Corruption(String),
    #[error("{0}")]
    InvalidArgument(String),
    #[error("{0}")]
    Io(String),
    #[error("{0}")]
    Other(String),
}

/// As systems say it: of a disk, of what a user may have of it, of a file that is limited.
const NO_ROOM: [&str; 3] = ["No space left on device", "Disk quota exceeded", "File too large"];

impl RocksError {
    /// From the text that RocksDB gave for what was attempted, as in "cannot open /rows".
    pub(crate) fn of(attempt: &str, text: &str) -> Self {
        let message = format!("rocksdb: {attempt}: {text}");
        let is_locked =
            text.contains("lock hold by current process") || text.contains("While lock file");
        let is_full = NO_ROOM.iter().any(|reason| text.contains(reason));
        match text.split(':').next().unwrap_or_default() {
            "IO error" if is_locked => RocksError::Locked(message),
            _ if is_full => RocksError::DiskFull(message),
            "Corruption" => RocksError::Corruption(message),
            "Invalid argument" => RocksError::InvalidArgument(message),
            "IO error" => RocksError::Io(message),
            "Not implemented" if text.contains("read only") => RocksError::ReadOnly(message),
            _ => RocksError::Other(message),
        }
    }

    pub(crate) fn invalid(attempt: &str, reason: &str) -> Self {
        RocksError::InvalidArgument(format!("rocksdb: {attempt}: {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, kind: fn(String) -> RocksError) {
        let message = format!("rocksdb: cannot write /rows: {text}");
        assert_eq!(RocksError::of("cannot write /rows", text), kind(message));
    }

    #[test]
    fn the_kind_is_read_from_the_text() {
        check(
            "IO error: lock hold by current process, acquire time 1700000000 acquiring thread 7: \
             /rows/LOCK: No locks available",
            RocksError::Locked,
        );
        check(
            "IO error: While lock file: /rows/LOCK: Resource temporarily unavailable",
            RocksError::Locked,
        );
        check(
            "IO error: No space left on device: While appending to file: /rows/000004.log: No \
             space left on device",
            RocksError::DiskFull,
        );
        check(
            "IO error: While appending to file: /rows/000004.log: File too large",
            RocksError::DiskFull,
        );
        check("Corruption: block checksum mismatch: stored = 1", RocksError::Corruption);
        check("Invalid argument: Column family not found: a", RocksError::InvalidArgument);
        check("IO error: Permission denied: While open a file for lock", RocksError::Io);
        check("Not implemented: Not supported operation in read only mode.", RocksError::ReadOnly);
        check("Shutdown in progress: ", RocksError::Other);
        check("", RocksError::Other);
    }
}
