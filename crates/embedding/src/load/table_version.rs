//! Which version of a table's files was loaded.
//!
//! The stamp is quick to take: sizes and times of the files. Another stamp may still be the same
//! content, copied again: then the hash of all bytes decides. Files of an object store have tags,
//! which stand for their bytes: these are not fetched a second time to be hashed.

use twox_hash::XxHash3_128;

use super::load_error::LoadError;
use super::sparse_folder::SparseFolder;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionStamp {
    /// Stays the same as long as nobody writes the files.
    pub text: String,
    /// When the last of the files was written, in milliseconds since 1970.
    pub time_ms: u64,
}

impl VersionStamp {
    pub fn of(folders: &[SparseFolder]) -> Self {
        let mut parts = Vec::new();
        let mut time_ms = 0;
        for file in folders.iter().flat_map(SparseFolder::files) {
            let tag = file.tag().unwrap_or_default();
            parts.push(format!("{}@{}{tag}", file.bytes(), file.modified_ms()));
            time_ms = time_ms.max(file.modified_ms());
        }
        VersionStamp { text: parts.join("+"), time_ms }
    }
}

const PIECE_BYTES: usize = 4 << 20;

/// The XXH3-128 of all bytes, or of the files' tags where all have one, in hex. Calls `read` with
/// how many bytes it has gone through.
pub fn content_hash(
    folders: &[SparseFolder],
    read: &mut dyn FnMut(u64),
) -> Result<String, LoadError> {
    let mut hasher = XxHash3_128::new();
    let mut total = 0;
    let tags: Option<Vec<&str>> =
        folders.iter().flat_map(SparseFolder::files).map(|file| file.tag()).collect();
    if let Some(tags) = tags {
        tags.iter().for_each(|tag| hasher.write(format!("{} {tag}", tag.len()).as_bytes()));
        return Ok(format!("{:032x}", hasher.finish_128()));
    }
    let mut piece = vec![0; PIECE_BYTES];
    for file in folders.iter().flat_map(SparseFolder::files) {
        hasher.write(&file.bytes().to_le_bytes());
        let mut offset = 0;
        while offset < file.bytes() {
            let bytes = (file.bytes() - offset).min(PIECE_BYTES as u64) as usize;
            let piece = &mut piece[..bytes];
            file.read_at(offset, piece).map_err(|error| LoadError::File {
                path: file.path().to_owned(),
                problem: format!("cannot read {bytes} bytes at {offset}: {error}"),
            })?;
            hasher.write(piece);
            offset += bytes as u64;
            total += bytes as u64;
            read(total);
        }
    }
    Ok(format!("{:032x}", hasher.finish_128()))
}
