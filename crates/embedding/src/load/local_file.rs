//! A file on a disk of this machine.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use super::stored_file::StoredFile;

pub struct LocalFile {
    path: String,
    file: File,
    bytes: u64,
    modified_ms: u64,
}

impl LocalFile {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(LocalFile {
            path: path.display().to_string(),
            bytes: metadata.len(),
            modified_ms: modified.as_millis() as u64,
            file,
        })
    }
}

impl StoredFile for LocalFile {
    fn path(&self) -> &str {
        &self.path
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn modified_ms(&self) -> u64 {
        self.modified_ms
    }

    fn read_at(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(to, offset)
    }
}
