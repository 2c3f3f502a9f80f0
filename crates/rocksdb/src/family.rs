//! A column family: keys and values of their own inside a database. It borrows the database, so it
//! cannot outlive it.
//!
//! A family that is dropped from the database can be read as long as somebody has it; writes to it
//! fail.

use std::path::PathBuf;
use std::ptr::null;
use std::sync::Arc;

use crate::c_bytes::c_text;
use crate::db_borrow::DbBorrow;
use crate::family_handle::FamilyHandle;
use crate::family_iterator::FamilyIterator;
use crate::ingest_files::IngestFiles;
use crate::multi_get::multi_get;
use crate::owned_object::OwnedObject;
use crate::rocks_error::RocksError;

/// A database that has families in use cannot be closed:
///
/// ```compile_fail,E0505
/// fn close(db: terrace_rocksdb::RocksDb) {
///     let family = db.family("rows");
///     drop(db);
/// }
/// ```
#[derive(Clone)]
pub struct Family<'db> {
    pub(crate) open: DbBorrow<'db>,
    pub(crate) handle: Arc<FamilyHandle>,
}

impl<'db> Family<'db> {
    /// Calls `found` with the place of a key in `keys`, which are `key_bytes` long each, and its
    /// value, for each key that is there; in ascending order of keys, not of places. If keys fail,
    /// the others are found all the same, and the first error is returned.
    pub fn multi_get(
        &self,
        keys: &[u8],
        key_bytes: usize,
        found: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), RocksError> {
        multi_get(&self.open, &self.handle, keys, key_bytes, found)
    }

    /// All keys in ascending order of bytes, as they are now; from the first that is not below
    /// `from`.
    pub fn iterate(&self, from: Option<&[u8]>) -> FamilyIterator<'db> {
        FamilyIterator::new(self.open.clone(), Arc::clone(&self.handle), from)
    }

    /// Writes what is in memory to files.
    pub fn flush(&self) -> Result<(), RocksError> {
        let what = "flush a family of";
        self.open.require_writable(what)?;
        let functions = self.open.functions();
        // SAFETY: the function makes options of flushes.
        let options =
            unsafe { OwnedObject::create(self.open.library(), functions.flushoptions_create) };
        let (db, family) = (self.open.object.as_ptr(), self.handle.as_ptr());
        self.open.library().checked(
            || self.open.attempt(what),
            // SAFETY: database, family and options live as long as this call.
            |error| unsafe { (functions.flush_cf)(db, options.as_ptr(), family, error) },
        )
    }

    /// Merges all files, which drops what was overwritten and deleted. Takes as long as reading and
    /// writing the family.
    pub fn compact(&self) -> Result<(), RocksError> {
        let what = "compact a family of";
        self.open.require_writable(what)?;
        self.flush()?;
        let (db, family) = (self.open.object.as_ptr(), self.handle.as_ptr());
        let failures = self.background_failures();
        // SAFETY: database and family live as long as this call; null is the range's open end.
        unsafe { (self.open.functions().compact_range_cf)(db, family, null(), 0, null(), 0) };
        // The function reports no error; RocksDB counts what failed in its threads.
        if self.background_failures() == failures {
            return Ok(());
        }
        let attempt = self.open.attempt(what);
        Err(RocksError::Other(format!("rocksdb: {attempt}: see the file LOG in it for the reason")))
    }

    /// Takes over the keys of finished files, written by an [`SstWriter`](crate::SstWriter) each,
    /// above what is there. Their ranges of keys must not overlap.
    pub fn ingest(&self, files: &[PathBuf], how: IngestFiles) -> Result<(), RocksError> {
        let what = "ingest files into";
        self.open.require_writable(what)?;
        if files.is_empty() {
            return Ok(());
        }
        let attempt = self.open.attempt(what);
        let names = files.iter().map(|file| c_text(&attempt, file.as_os_str().as_encoded_bytes()));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let names: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let functions = self.open.functions();
        let create = functions.ingestexternalfileoptions_create;
        // SAFETY: the function makes options of ingesting.
        let options = unsafe { OwnedObject::create(self.open.library(), create) };
        let is_moved = u8::from(how == IngestFiles::Move);
        // SAFETY: the options were just made.
        unsafe { (functions.ingestexternalfileoptions_set_move_files)(options.as_ptr(), is_moved) };
        let (db, family) = (self.open.object.as_ptr(), self.handle.as_ptr());
        // SAFETY: all objects and the `names.len()` texts live as long as this call.
        let ingest = |error| unsafe {
            let ingest = functions.ingest_external_file_cf;
            ingest(db, family, names.as_ptr(), names.len(), options.as_ptr(), error);
        };
        self.open.library().checked(|| attempt, ingest)
    }

    /// How many keys there are, as RocksDB guesses: what was overwritten or deleted and not yet
    /// compacted may count.
    pub fn estimate_keys(&self) -> Result<u64, RocksError> {
        let text = self.open.property(Some(&self.handle), c"rocksdb.estimate-num-keys");
        text.as_ref().and_then(|text| text.parse().ok()).ok_or_else(|| {
            let attempt = self.open.attempt("count the keys of");
            RocksError::Other(format!("rocksdb: {attempt}: it says {text:?}"))
        })
    }

    /// `None` if RocksDB has no property of this name.
    pub fn property(&self, name: &str) -> Result<Option<String>, RocksError> {
        let name = c_text(&self.open.attempt("read a property of"), name.as_bytes())?;
        Ok(self.open.property(Some(&self.handle), &name))
    }

    /// Flushes and compactions that failed since the database was opened.
    fn background_failures(&self) -> Option<String> {
        self.open.property(None, c"rocksdb.background-errors")
    }
}
