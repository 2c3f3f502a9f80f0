//! Hashes of weight files that were computed before, one small file for each model.
//!
//! A hash is known by the files' canonical paths, sizes and times of change; where any of these
//! differs it is computed again. Models' own folders may be read-only and are never written. What
//! cannot be read or written here costs the time of hashing and a logged line, nothing else.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use terrace_device::HostMap;

use super::weights_hash::FileHash;

/// A folder of hashes; it is made when the first is kept.
#[derive(Clone, Debug)]
pub struct HashStore {
    folder: PathBuf,
}

/// Raised when the meaning of an entry changes.
const VERSION: u32 = 1;

/// What is kept of a model, as JSON.
#[derive(Serialize, Deserialize)]
struct HashEntry {
    version: u32,
    files: Vec<HashedFile>,
}

#[derive(Serialize, Deserialize)]
struct HashedFile {
    #[serde(flatten)]
    state: FileState,
    /// In hexadecimal digits.
    sha256: String,
}

/// What distinguishes a file from its later versions.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileState {
    path: PathBuf,
    bytes: u64,
    modified_ns: u64,
}

impl FileState {
    /// `None` where the system does not say enough.
    pub(super) fn of(file: &HostMap) -> Option<Self> {
        let modified = file.modified()?.duration_since(UNIX_EPOCH).ok()?;
        Some(FileState {
            path: file.path().canonicalize().ok()?,
            bytes: file.len() as u64,
            modified_ns: u64::try_from(modified.as_nanos()).ok()?,
        })
    }
}

impl HashStore {
    pub fn at(folder: PathBuf) -> Self {
        HashStore { folder }
    }

    /// The hash of each file, if they are as they were when it was kept.
    pub(super) fn find(&self, files: &[FileState]) -> Option<Vec<FileHash>> {
        let path = self.path_of(files);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => return unusable(&path, &error.to_string()),
        };
        let entry: HashEntry = match serde_json::from_slice(&text) {
            Ok(entry) => entry,
            Err(error) => return unusable(&path, &error.to_string()),
        };
        if entry.version != VERSION || !entry.files.iter().map(|file| &file.state).eq(files) {
            return None;
        }
        let hashes: Option<_> = entry.files.iter().map(|file| from_hex(&file.sha256)).collect();
        hashes.or_else(|| unusable(&path, "it has no SHA-256"))
    }

    pub(super) fn keep(&self, files: &[FileState], hashes: &[FileHash]) {
        let files_hashed = files
            .iter()
            .zip(hashes)
            .map(|(state, sha256)| HashedFile { state: state.clone(), sha256: hex(sha256) });
        let entry = HashEntry { version: VERSION, files: files_hashed.collect() };
        let path = self.path_of(files);
        if let Err(error) = self.write(&path, &entry) {
            let path = path.display();
            tracing::warn!("the weights' hash cannot be kept in {path}: {error}");
        }
    }

    /// Written beside its final name and renamed, so that it is whole or absent.
    fn write(&self, path: &Path, entry: &HashEntry) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let partial = path.with_extension(format!("partial-{}", std::process::id()));
        let written = fs::write(&partial, serde_json::to_vec(entry)?);
        let renamed = written.and_then(|()| fs::rename(&partial, path));
        renamed.inspect_err(|_| drop(fs::remove_file(&partial)))
    }

    /// A model is known by its files' paths; whichever was there last is kept.
    fn path_of(&self, files: &[FileState]) -> PathBuf {
        let mut hash = Sha256::new();
        for file in files {
            hash.update(file.path.as_os_str().as_encoded_bytes());
            hash.update([0]);
        }
        self.folder.join(format!("{}.json", hex(&hash.finalize())))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<FileHash> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    pairs.iter().map(byte).collect::<Option<Vec<u8>>>()?.try_into().ok()
}

fn unusable<T>(path: &Path, problem: &str) -> Option<T> {
    let path = path.display();
    tracing::warn!("{path} is of no use ({problem}): the weights are hashed again");
    None
}

/// All states, if every file has one.
pub(super) fn states_of(files: &[Arc<HostMap>]) -> Option<Vec<FileState>> {
    files.iter().map(|file| FileState::of(file)).collect()
}

#[cfg(test)]
mod tests;
