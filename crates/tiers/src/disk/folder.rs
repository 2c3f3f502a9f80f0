//! The folder of a disk tier: whose it is, and which page files of other models lie in it.
//!
//! | name | what |
//! |---|---|
//! | `lock` | locked by the process that has the folder |
//! | `pages-<bytes of a record>.frames` | the records |
//! | `pages-<bytes of a record>.directory` | what is in which frame; its time is the last use |
//!
//! Other names, such as `handles/`, are not looked at.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::io_fault::io_fault;
use crate::tier_error::TierError;

const FRAMES: &str = "frames";
const DIRECTORY: &str = "directory";

pub struct Folder {
    path: PathBuf,
    /// Held as long as the folder is in use; the system gives it back when the process ends.
    _lock: File,
}

/// A page file that is not in use: of records of another length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherPages {
    record_bytes: usize,
    /// Of both of its files.
    pub bytes: u64,
    used: SystemTime,
}

impl Folder {
    /// Makes the folder if there is none, and takes it for this process.
    pub fn take(path: &Path) -> Result<Self, TierError> {
        std::fs::create_dir_all(path).map_err(io_fault("cannot make the folder", path))?;
        let lock_path = path.join("lock");
        let lock = File::create(&lock_path).map_err(io_fault("cannot make", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Folder { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(TierError::Unavailable(format!(
                "{} is in use by another process; give each its own folder, or end the other",
                path.display()
            ))),
            Err(TryLockError::Error(error)) => Err(io_fault("cannot lock", &lock_path)(error)),
        }
    }

    pub fn frames_path(&self, record_bytes: usize) -> PathBuf {
        self.path.join(format!("pages-{record_bytes}.{FRAMES}"))
    }

    pub fn directory_path(&self, record_bytes: usize) -> PathBuf {
        self.path.join(format!("pages-{record_bytes}.{DIRECTORY}"))
    }

    /// Page files of other records, the longest unused last.
    pub fn others(&self, record_bytes: usize) -> Result<Vec<OtherPages>, TierError> {
        let fault = io_fault("cannot list", &self.path);
        let mut lengths = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(&fault)? {
            let name = entry.map_err(&fault)?.file_name();
            let length = name.to_str().and_then(length_in_name);
            lengths.extend(length.filter(|&length| length != record_bytes));
        }
        lengths.sort_unstable();
        lengths.dedup();
        let mut others: Vec<_> = lengths.into_iter().map(|length| self.other(length)).collect();
        others.sort_by_key(|other| std::cmp::Reverse(other.used));
        Ok(others)
    }

    fn other(&self, record_bytes: usize) -> OtherPages {
        let paths = [self.frames_path(record_bytes), self.directory_path(record_bytes)];
        let [frames, directory] = paths.map(|path| path.metadata().ok());
        let bytes = [&frames, &directory].into_iter().flatten().map(|file| file.len()).sum();
        let used = directory.and_then(|file| file.modified().ok());
        OtherPages { record_bytes, bytes, used: used.unwrap_or(SystemTime::UNIX_EPOCH) }
    }

    /// Deletes a page file that is not in use.
    pub fn delete(&self, other: &OtherPages) -> Result<(), TierError> {
        for path in [self.directory_path(other.record_bytes), self.frames_path(other.record_bytes)]
        {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(io_fault("cannot delete", &path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes the names of new files survive a power cut.
    pub fn sync(&self) -> Result<(), TierError> {
        let synced = File::open(&self.path).and_then(|folder| folder.sync_all());
        synced.map_err(io_fault("cannot sync", &self.path))
    }
}

/// The bytes of a record in the name of a page file.
fn length_in_name(name: &str) -> Option<usize> {
    let (length, end) = name.strip_prefix("pages-")?.split_once('.')?;
    (end == FRAMES || end == DIRECTORY).then(|| length.parse().ok()).flatten()
}
