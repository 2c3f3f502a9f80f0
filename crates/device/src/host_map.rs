//! A file mapped into memory, read-only.
//!
//! Bytes are loaded when they are first read and may be dropped again by the operating system, so
//! a model larger than free memory still starts. The file must not be shortened while it is
//! mapped; that is the operating system's contract, not ours to check.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::Error;

pub struct HostMap {
    path: PathBuf,
    map: memmap2::Mmap,
}

impl HostMap {
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|source| Error::Open { path: path.into(), source })?;
        // SAFETY: the map is private and read-only; only shortening the file could break it, and
        // whoever replaces a model file writes a new one (see the module comment).
        let map = unsafe { memmap2::Mmap::map(&file) }
            .map_err(|source| Error::Map { path: path.into(), source })?;
        Ok(HostMap { path: path.into(), map })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    pub fn len(&self) -> usize {
        self.map.len()
    }

    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }
}
