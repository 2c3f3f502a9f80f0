//! What an error of the operating system means for a tier.

use std::io::{self, ErrorKind};
use std::path::Path;

use crate::tier_error::TierError;

/// For `map_err`: `doing` is what was tried with `path`, as in "cannot write".
pub fn io_fault(doing: &str, path: &Path) -> impl Fn(io::Error) -> TierError {
    move |error| {
        let what = format!("{doing} {}: {error}", path.display());
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                TierError::Full(format!("{what}; make room on that disk, or lower its budget"))
            }
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => TierError::ReadOnly(
                format!("{what}; let this user write there, or choose another folder"),
            ),
            _ => TierError::Io(format!("{what}; check the disk, or choose another folder")),
        }
    }
}
