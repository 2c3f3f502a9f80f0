//! Which version a table's files are of, found out as far as somebody asks.

use std::cell::OnceCell;

use super::load_error::LoadError;
use super::load_progress::LoadProgress;
use super::sparse_folder::SparseFolder;
use super::table_version::{VersionStamp, content_hash};

pub struct FileVersion<'a> {
    folders: &'a [SparseFolder],
    stamp: VersionStamp,
    hash: OnceCell<String>,
}

impl<'a> FileVersion<'a> {
    pub fn new(folders: &'a [SparseFolder]) -> Self {
        FileVersion { folders, stamp: VersionStamp::of(folders), hash: OnceCell::new() }
    }

    pub fn folders(&self) -> &'a [SparseFolder] {
        self.folders
    }

    pub fn stamp(&self) -> &VersionStamp {
        &self.stamp
    }

    /// Of all bytes, which are read the first time that it is asked for.
    pub fn hash(&self, progress: &mut dyn FnMut(LoadProgress)) -> Result<&str, LoadError> {
        if self.hash.get().is_none() {
            let files = self.folders.iter().flat_map(SparseFolder::files);
            let of = files.map(|file| file.bytes()).fold(0, u64::saturating_add);
            let mut read = |bytes| progress(LoadProgress::Checked { bytes, of });
            // Nobody else can have set it meanwhile.
            let _ = self.hash.set(content_hash(self.folders, &mut read)?);
        }
        Ok(self.hash.get().expect("set above"))
    }

    /// If somebody has asked for it.
    pub fn known_hash(&self) -> Option<&str> {
        self.hash.get().map(String::as_str)
    }
}
