//! A file mapped into memory, read-only.
//!
//! Bytes are loaded when they are first read and may be dropped again by the operating system, so
//! a model larger than free memory still starts. The file must not be shortened while it is
//! mapped; that is the operating system's contract, not ours to check.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::Error;

/// The smallest page of the systems we run on; larger ones are read in as well.
const PAGE_BYTES: usize = 4096;
/// Often enough for a progress bar, rarely enough to cost nothing.
const READ_AHEAD_BYTES: usize = 4 << 20;

pub struct HostMap {
    path: PathBuf,
    map: memmap2::Mmap,
    modified: Option<SystemTime>,
}

impl HostMap {
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|source| Error::Open { path: path.into(), source })?;
        // SAFETY: the map is private and read-only; only shortening the file could break it, and
        // whoever replaces a model file writes a new one (see the module comment).
        let map = unsafe { memmap2::Mmap::map(&file) }
            .map_err(|source| Error::Map { path: path.into(), source })?;
        let modified = file.metadata().and_then(|metadata| metadata.modified()).ok();
        Ok(HostMap { path: path.into(), map, modified })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// When the file's content was last changed, as of its opening; `None` where the system does
    /// not say.
    pub fn modified(&self) -> Option<SystemTime> {
        self.modified
    }

    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Reads the whole file in, so that later reads need not wait for the disk. `progress` gets
    /// the bytes read since its last call.
    pub fn read_ahead(&self, mut progress: impl FnMut(usize)) {
        for run in self.bytes().chunks(READ_AHEAD_BYTES) {
            // One byte of a page brings the page in.
            for page in run.chunks(PAGE_BYTES) {
                std::hint::black_box(page[0]);
            }
            progress(run.len());
        }
    }

    /// Drops the whole pages inside `range` from memory. They are loaded again when they are read.
    #[cfg(unix)]
    pub fn unload(&self, range: Range<usize>) {
        let start = range.start.next_multiple_of(PAGE_BYTES);
        let end = range.end / PAGE_BYTES * PAGE_BYTES;
        if start < end {
            // SAFETY: the map is read-only and backed by its file, so the same bytes come back.
            let advised = unsafe {
                self.map.unchecked_advise_range(
                    memmap2::UncheckedAdvice::DontNeed,
                    start,
                    end - start,
                )
            };
            // Memory that stays is no error; it only stays.
            drop(advised);
        }
    }

    #[cfg(not(unix))]
    pub fn unload(&self, _: Range<usize>) {}

    pub fn len(&self) -> usize {
        self.map.len()
    }

    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }
}
