//! A folder in which files appear whole or not at all.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::dataset_error::DatasetError;

/// Files are written in a hidden folder inside, and renamed when all are finished. The hidden
/// folder goes when this is dropped.
pub struct OutputFolder {
    path: PathBuf,
    unfinished: TempDir,
}

const WRITE_BYTES: usize = 1 << 20;

/// A file on its way.
pub struct TableWriter {
    path: PathBuf,
    file: File,
    pub bytes: Vec<u8>,
}

impl OutputFolder {
    pub fn create(path: &Path) -> Result<Self, DatasetError> {
        std::fs::create_dir_all(path).map_err(DatasetError::io("create", path))?;
        let unfinished = tempfile::Builder::new().prefix(".preprocess-").tempdir_in(path);
        let unfinished = unfinished.map_err(DatasetError::io("write in", path))?;
        Ok(OutputFolder { path: path.to_owned(), unfinished })
    }

    /// For files that only last as long as the work.
    pub fn scratch(&self) -> &Path {
        self.unfinished.path()
    }

    pub fn writer(&self, name: &str) -> Result<TableWriter, DatasetError> {
        let path = self.unfinished.path().join(name);
        let file = File::create(&path).map_err(DatasetError::io("create", &path))?;
        Ok(TableWriter { path, file, bytes: Vec::with_capacity(WRITE_BYTES) })
    }

    /// Gives files their place, and returns it.
    pub fn finish(self, names: &[&str]) -> Result<Vec<PathBuf>, DatasetError> {
        let finish = |name: &&str| {
            let target = self.path.join(name);
            let written = self.unfinished.path().join(name);
            std::fs::rename(written, &target).map_err(DatasetError::io("write", &target))?;
            Ok(target)
        };
        names.iter().map(finish).collect()
    }
}

impl TableWriter {
    /// Writes what stands in `bytes`, if it is much.
    pub fn flush_if_full(&mut self) -> Result<(), DatasetError> {
        if self.bytes.len() < WRITE_BYTES {
            return Ok(());
        }
        self.flush()
    }

    pub fn flush(&mut self) -> Result<(), DatasetError> {
        self.file.write_all(&self.bytes).map_err(DatasetError::io("write", &self.path))?;
        self.bytes.clear();
        Ok(())
    }

    /// Everything is in the file, and on the disk.
    pub fn finish(mut self) -> Result<(), DatasetError> {
        self.flush()?;
        self.file.sync_all().map_err(DatasetError::io("write", &self.path))
    }

    /// Appends what another has written.
    pub fn append(&mut self, mut other: TableWriter) -> Result<(), DatasetError> {
        self.flush()?;
        other.flush()?;
        let mut written = File::open(&other.path).map_err(DatasetError::io("open", &other.path))?;
        io::copy(&mut written, &mut self.file).map_err(DatasetError::io("write", &self.path))?;
        std::fs::remove_file(&other.path).map_err(DatasetError::io("remove", &other.path))
    }
}
