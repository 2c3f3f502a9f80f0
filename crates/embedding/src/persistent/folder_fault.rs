//! What an error of the operating system means for a database's folder.

use std::io::{Error, ErrorKind};
use std::path::Path;

use terrace_tiers::TierError;

/// For `map_err`: `doing` is what was tried with `path`, as in "cannot make".
pub fn folder_fault(doing: &str, path: &Path) -> impl Fn(Error) -> TierError {
    move |error| {
        let what = format!("{doing} {}: {error}", path.display());
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                TierError::Full(format!("{what}; make room on that disk, then restart"))
            }
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => TierError::ReadOnly(
                format!("{what}; let this user write there, or choose another folder"),
            ),
            _ => TierError::Io(format!("{what}; check the disk, or choose another folder")),
        }
    }
}
