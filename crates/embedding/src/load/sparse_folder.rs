//! The files of one trained table: `key` and `emb_vector`, row by row, and what may lie beside.
//! They are on a disk or in an object store.
//!
//! Keys are i64 in the file whatever kind a server has. All sizes are checked when it is opened;
//! nothing is held in memory but the batch that is read, and of an object 8 MiB around it.

use std::io;
use std::path::Path;

use super::load_error::LoadError;
use super::local_file::LocalFile;
use super::objects::ObjectSource;
use super::stored_file::StoredFile;
use crate::config::{ModelPath, VECTOR_SIZE_MAX};
use crate::key_kind::KeyKind;
use crate::row_store::ScannedRows;

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
/// Keys that are compared at once with those that are looked for.
const FOUND_KEYS: usize = 64 << 10;
/// Beside the keys, of 8 bytes for each.
const FILES_BESIDE: [&str; 2] = ["slot_id", "meta"];

impl SparseFolder {
    /// A folder of this machine; `dim` is what the configuration says.
    pub fn open(folder: &Path, dim: Option<usize>) -> Result<Self, LoadError> {
        let open = |file: &str| -> io::Result<Box<dyn StoredFile>> {
            Ok(Box::new(LocalFile::open(&folder.join(file))?))
        };
        Self::open_files(folder.display().to_string(), dim, open)
    }

    /// A folder of this machine, or the objects below a URL.
    pub fn open_path(
        path: &ModelPath,
        dim: Option<usize>,
        objects: &ObjectSource,
    ) -> Result<Self, LoadError> {
        let url = match path {
            ModelPath::Local(folder) => return Self::open(folder, dim),
            ModelPath::ObjectStore(url) => url,
        };
        let open = |file: &str| -> io::Result<Box<dyn StoredFile>> {
            Ok(Box::new(objects.open_file(&path_of(url, file))?))
        };
        Self::open_files(url.clone(), dim, open)
    }

    fn open_files(
        folder: String,
        dim: Option<usize>,
        open: impl Fn(&str) -> io::Result<Box<dyn StoredFile>>,
    ) -> Result<Self, LoadError> {
        let failed = |file: &str, error: io::Error| {
            let problem = match error.kind() {
                io::ErrorKind::NotFound => {
                    format!("{error}; a table's folder has the files key and emb_vector")
                }
                _ => error.to_string(),
            };
            LoadError::File { path: path_of(&folder, file), problem }
        };
        let needed = |file: &str| open(file).map_err(|error| failed(file, error));
        let (keys, rows) = (needed("key")?, needed("emb_vector")?);
        let sparse = Self::new(folder.clone(), keys, rows, dim)?;
        for file in FILES_BESIDE {
            match open(file) {
                Ok(beside) => sparse.check_beside(file, beside.bytes())?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(file, error)),
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
                let bytes = dim as u128 * u128::from(NUMBER_BYTES);
                Some(format!("and rows of {dim} numbers have {bytes} each"))
            }
            None if is_whole => None,
            None => Some("which is no whole number of numbers for each".to_owned()),
        };
        if let Some(wanted) = wanted {
            return Err(LoadError::Ragged { folder, keys: count, row_bytes, wanted });
        }
        if found > VECTOR_SIZE_MAX {
            let (keys, dim, most) = (count, found, VECTOR_SIZE_MAX);
            return Err(LoadError::Wide { folder, keys, row_bytes, dim, most });
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

    /// Fills a batch with the rows from `start` on, at most so many; none behind the last. Takes
    /// memory for as many as the files claim to have.
    pub fn read(
        &self,
        start: u64,
        most: usize,
        kind: KeyKind,
        batch: &mut SparseBatch,
    ) -> Result<(), LoadError> {
        let start = start.min(self.count);
        let count = (self.count - start).min(most as u64) as usize;
        batch.keys.resize(count, 0);
        batch.rows.resize(count * self.dim, 0.0);
        read_numbers(&*self.keys, start * KEY_BYTES, &mut batch.keys, i64::from_le_bytes)?;
        let offset = start * self.dim as u64 * NUMBER_BYTES;
        read_numbers(&*self.rows, offset, &mut batch.rows, f32::from_le_bytes)?;
        let folder = || self.folder.clone();
        kind.check(&batch.keys).map_err(|error| LoadError::Key { folder: folder(), error })
    }

    /// Gives all rows in the order of the files, in batches of at most so many.
    pub fn scan(
        &self,
        batch_rows: usize,
        kind: KeyKind,
        each: &mut ScannedRows<'_>,
    ) -> Result<(), LoadError> {
        let mut batch = SparseBatch::default();
        for start in (0..self.count).step_by(batch_rows.max(1)) {
            self.read(start, batch_rows.max(1), kind, &mut batch)?;
            each(&batch.keys, &batch.rows)?;
        }
        Ok(())
    }

    /// The rows of some keys, which are looked for one after the other. Of a key that repeats in
    /// the files, the last row counts, as in a database that they are loaded into.
    pub fn find(&self, wanted: &[i64]) -> Result<Vec<Option<Vec<f32>>>, LoadError> {
        let mut places: Vec<Option<u64>> = vec![None; wanted.len()];
        let mut keys = Vec::new();
        for start in (0..self.count).step_by(FOUND_KEYS) {
            keys.resize((self.count - start).min(FOUND_KEYS as u64) as usize, 0);
            read_numbers(&*self.keys, start * KEY_BYTES, &mut keys, i64::from_le_bytes)?;
            for (place, key) in (start..).zip(&keys) {
                let same = wanted.iter().zip(&mut places).filter(|(wanted, _)| *wanted == key);
                same.for_each(|(_, found)| *found = Some(place));
            }
        }
        let mut batch = SparseBatch::default();
        let mut row = |place: Option<u64>| match place {
            Some(place) => {
                self.read(place, 1, KeyKind::I64, &mut batch)?;
                Ok(Some(batch.rows.clone()))
            }
            None => Ok(None),
        };
        places.into_iter().map(&mut row).collect()
    }

    fn check_beside(&self, file: &'static str, bytes: u64) -> Result<(), LoadError> {
        let (keys, wanted, folder) = (self.count, self.count * KEY_BYTES, self.folder.clone());
        match bytes == wanted {
            true => Ok(()),
            false => Err(LoadError::Beside { folder, file, bytes, wanted, keys }),
        }
    }
}

/// On a disk and in URLs.
fn path_of(folder: &str, file: &str) -> String {
    format!("{}/{file}", folder.trim_end_matches('/'))
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
