//! The files of one trained table: `key` and `emb_vector`, row by row, and what may lie beside.
//!
//! Keys are i64 in the file whatever kind a server has. All sizes are checked when it is opened;
//! nothing is held in memory but the batch that is read.

use std::io;
use std::path::Path;

use super::load_error::LoadError;
use super::local_file::LocalFile;
use super::stored_file::StoredFile;
use crate::key_kind::KeyKind;

pub struct SparseFolder {
    folder: String,
    keys: Box<dyn StoredFile>,
    rows: Box<dyn StoredFile>,
    count: u64,
    dim: usize,
}

/// Rows that follow each other in the files.
#[derive(Debug, Default, PartialEq)]
pub struct SparseBatch {
    pub keys: Vec<i64>,
    /// `[keys, dim]`
    pub rows: Vec<f32>,
}

const KEY_BYTES: u64 = 8;
const NUMBER_BYTES: u64 = 4;
/// Beside the keys, of 8 bytes for each.
const FILES_BESIDE: [&str; 2] = ["slot_id", "meta"];

impl SparseFolder {
    /// A folder of this machine; `dim` is what the configuration says.
    pub fn open(folder: &Path, dim: Option<usize>) -> Result<Self, LoadError> {
        let name = folder.display().to_string();
        let open = |file: &str| {
            let path = folder.join(file);
            LocalFile::open(&path).map_err(|error| LoadError::File {
                path: path.display().to_string(),
                problem: format!("{error}; a table's folder has the files key and emb_vector"),
            })
        };
        let (keys, rows) = (open("key")?, open("emb_vector")?);
        let sparse = Self::new(name, Box::new(keys), Box::new(rows), dim)?;
        for file in FILES_BESIDE {
            let path = folder.join(file);
            match LocalFile::open(&path) {
                Ok(beside) => sparse.check_beside(file, beside.bytes())?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let (path, problem) = (path.display().to_string(), error.to_string());
                    return Err(LoadError::File { path, problem });
                }
            }
        }
        Ok(sparse)
    }

    /// Files from anywhere.
    pub fn new(
        folder: String,
        keys: Box<dyn StoredFile>,
        rows: Box<dyn StoredFile>,
        dim: Option<usize>,
    ) -> Result<Self, LoadError> {
        let (key_bytes, row_bytes) = (keys.bytes(), rows.bytes());
        if !key_bytes.is_multiple_of(KEY_BYTES) {
            return Err(LoadError::PartOfKey { folder, key_bytes });
        }
        let count = key_bytes / KEY_BYTES;
        if count == 0 {
            return Err(LoadError::Empty { folder });
        }
        let found = row_bytes / (count * NUMBER_BYTES);
        let is_whole = found > 0 && found.checked_mul(count * NUMBER_BYTES) == Some(row_bytes);
        let wanted = match dim {
            Some(dim) if dim as u64 == found && is_whole => None,
            Some(dim) => {
                Some(format!("and rows of {dim} numbers have {} each", dim as u64 * NUMBER_BYTES))
            }
            None if is_whole => None,
            None => Some("which is no whole number of numbers for each".to_owned()),
        };
        if let Some(wanted) = wanted {
            return Err(LoadError::Ragged { folder, keys: count, row_bytes, wanted });
        }
        Ok(SparseFolder { folder, keys, rows, count, dim: found as usize })
    }

    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// Rows.
    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn dim(&self) -> usize {
        self.dim
    }

    pub(super) fn files(&self) -> [&dyn StoredFile; 2] {
        [&*self.keys, &*self.rows]
    }

    /// Fills a batch with the rows from `start` on, at most so many.
    pub fn read(
        &self,
        start: u64,
        most: usize,
        kind: KeyKind,
        batch: &mut SparseBatch,
    ) -> Result<(), LoadError> {
        let count = self.count.saturating_sub(start).min(most as u64) as usize;
        batch.keys.resize(count, 0);
        batch.rows.resize(count * self.dim, 0.0);
        read_numbers(&*self.keys, start * KEY_BYTES, &mut batch.keys, i64::from_le_bytes)?;
        let offset = start * self.dim as u64 * NUMBER_BYTES;
        read_numbers(&*self.rows, offset, &mut batch.rows, f32::from_le_bytes)?;
        let folder = || self.folder.clone();
        kind.check(&batch.keys).map_err(|error| LoadError::Key { folder: folder(), error })
    }

    fn check_beside(&self, file: &'static str, bytes: u64) -> Result<(), LoadError> {
        let (keys, wanted, folder) = (self.count, self.count * KEY_BYTES, self.folder.clone());
        match bytes == wanted {
            true => Ok(()),
            false => Err(LoadError::Beside { folder, file, bytes, wanted, keys }),
        }
    }
}

/// Bytes read at once on the way to numbers.
const PIECE_BYTES: usize = 1 << 20;

fn read_numbers<T, const BYTES: usize>(
    file: &dyn StoredFile,
    mut offset: u64,
    to: &mut [T],
    number: impl Fn([u8; BYTES]) -> T,
) -> Result<(), LoadError> {
    let mut piece = vec![0; PIECE_BYTES.min(size_of_val(to))];
    for to in to.chunks_mut(PIECE_BYTES / BYTES) {
        let piece = &mut piece[..to.len() * BYTES];
        file.read_at(offset, piece).map_err(|error| LoadError::File {
            path: file.path().to_owned(),
            problem: format!("cannot read {} bytes at {offset}: {error}", piece.len()),
        })?;
        offset += piece.len() as u64;
        for (to, bytes) in to.iter_mut().zip(piece.as_chunks().0) {
            *to = number(*bytes);
        }
    }
    Ok(())
}
