//! What an error of fjall means for a level.

use std::path::Path;

use fjall::{Error, LsmError};
use terrace_tiers::TierError;

use super::embedded_folder::in_use;
use super::folder_fault::folder_fault;

/// For `map_err`: `doing` is what was tried with the database in `path`, as in "cannot write to".
/// With less room than `room_bytes` on its disk, that is taken for the reason of writes that failed
/// before.
pub fn embedded_fault(doing: &str, path: &Path, room_bytes: usize) -> impl Fn(Error) -> TierError {
    let doing = format!("embedded: {doing}");
    move |error| {
        let shown = path.display();
        match error {
            Error::Io(error) | Error::Storage(LsmError::Io(error)) => {
                folder_fault(&doing, path)(error)
            }
            Error::Locked => in_use(path),
            Error::Poisoned if is_full(path, room_bytes) => TierError::Full(format!(
                "{doing} {shown}: a write failed before, as its disk is full; make room there, \
                 then restart"
            )),
            Error::Poisoned => TierError::Unavailable(format!(
                "{doing} {shown}: a write failed before, and nothing is written after that; check \
                 its disk, then restart"
            )),
            Error::InvalidVersion(version) => TierError::Protocol(format!(
                "{doing} {shown}: another release of fjall made it ({version:?}); fill a new \
                 folder"
            )),
            error => TierError::Protocol(format!(
                "{doing} {shown}: it is damaged ({error:?}); restore the folder, or delete it and \
                 fill it again"
            )),
        }
    }
}

fn is_full(path: &Path, room_bytes: usize) -> bool {
    let room = rustix::fs::statvfs(path).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    room.is_ok_and(|room| room < room_bytes as u64)
}
