//! An open database as its parts need it: its address, its options and where it lies.
//!
//! Families, iterators and batches borrow it, so none of them outlives it; what is made from the
//! database is destroyed first.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::durability::Durability;
use crate::family_handle::FamilyHandle;
use crate::functions::Functions;
use crate::objects::{DbObject, OptionsObject, ReadOptionsObject, WriteOptionsObject};
use crate::owned_object::OwnedObject;
use crate::rocks_error::RocksError;
use crate::rocks_library::RocksLibrary;

pub struct OpenDb {
    pub object: OwnedObject<DbObject>,
    pub options: OwnedObject<OptionsObject>,
    /// Of looking keys up.
    pub reads: OwnedObject<ReadOptionsObject>,
    writes: WriteOptions,
    pub folder: PathBuf,
    pub read_only: bool,
}

/// How far the log of writes is brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalFlush {
    ToSystem,
    ToDisk,
}

/// One for each durability.
struct WriteOptions {
    wal: OwnedObject<WriteOptionsObject>,
    synced_wal: OwnedObject<WriteOptionsObject>,
    none: OwnedObject<WriteOptionsObject>,
}

impl OpenDb {
    pub fn new(
        object: OwnedObject<DbObject>,
        options: OwnedObject<OptionsObject>,
        folder: &Path,
        read_only: bool,
    ) -> Self {
        let library = Arc::clone(object.library());
        // SAFETY: the function makes options of reads.
        let reads =
            unsafe { OwnedObject::create(&library, library.functions().readoptions_create) };
        let writes = WriteOptions::new(&library);
        OpenDb { object, options, reads, writes, folder: folder.to_owned(), read_only }
    }

    pub fn library(&self) -> &Arc<RocksLibrary> {
        self.object.library()
    }

    pub fn functions(&self) -> &Functions {
        self.library().functions()
    }

    pub fn write_options(&self, durability: Durability) -> *const WriteOptionsObject {
        match durability {
            Durability::Wal => self.writes.wal.as_ptr(),
            Durability::SyncedWal => self.writes.synced_wal.as_ptr(),
            Durability::None => self.writes.none.as_ptr(),
        }
    }

    /// "cannot write to the database in /rows".
    pub fn attempt(&self, what: &str) -> String {
        format!("cannot {what} the database in {}", self.folder.display())
    }

    /// Refuses what a database that was opened to read only cannot do.
    pub fn require_writable(&self, what: &str) -> Result<(), RocksError> {
        if !self.read_only {
            return Ok(());
        }
        Err(RocksError::ReadOnly(format!("rocksdb: {}", self.attempt(what))))
    }

    pub fn flush_wal(&self, how: WalFlush) -> Result<(), RocksError> {
        let what = "flush the log of";
        self.require_writable(what)?;
        let is_synced = u8::from(how == WalFlush::ToDisk);
        match self.functions().flush_wal {
            Some(flush_wal) => self.library().checked(
                || self.attempt(what),
                // SAFETY: the database is open as long as `self` is.
                |error| unsafe { flush_wal(self.object.as_ptr(), is_synced, error) },
            ),
            // Such a library is never asked to keep the log in memory.
            None if how == WalFlush::ToSystem => Ok(()),
            None => Err(RocksError::Other(format!(
                "rocksdb: {}: {} cannot; take RocksDB 7.0 or newer, or sync each write",
                self.attempt(what),
                self.library().path().display()
            ))),
        }
    }

    /// `None` if RocksDB knows no such property. Of the default family if `family` is `None`.
    pub fn property(&self, family: Option<&FamilyHandle>, name: &CStr) -> Option<String> {
        let (db, functions) = (self.object.as_ptr(), self.functions());
        // SAFETY: the database and the family are open as long as they are borrowed here.
        let text = unsafe {
            match family {
                Some(family) => (functions.property_value_cf)(db, family.as_ptr(), name.as_ptr()),
                None => (functions.property_value)(db, name.as_ptr()),
            }
        };
        // SAFETY: properties are texts made for the caller.
        unsafe { self.library().take_text(text) }
    }
}

impl Drop for OpenDb {
    fn drop(&mut self) {
        if !self.read_only {
            // Whoever must know closes the database by `RocksDb::close`; closing tries once more,
            // and RocksDB writes into its own log why it could not.
            let _ = self.flush_wal(WalFlush::ToSystem);
        }
    }
}

impl WriteOptions {
    fn new(library: &Arc<RocksLibrary>) -> Self {
        let functions = library.functions();
        let create = || {
            // SAFETY: the function makes options of writes.
            unsafe { OwnedObject::create(library, functions.writeoptions_create) }
        };
        let options = WriteOptions { wal: create(), synced_wal: create(), none: create() };
        // SAFETY: the options were just made and nobody else has them.
        unsafe {
            // Otherwise a write to a family that is dropped at the same moment would stop all
            // writes to the database; one that was dropped before is refused by the batch.
            let ignore_missing = functions.writeoptions_set_ignore_missing_column_families;
            for object in [&options.wal, &options.synced_wal, &options.none] {
                ignore_missing(object.as_ptr(), 1);
            }
            (functions.writeoptions_set_sync)(options.synced_wal.as_ptr(), 1);
            (functions.writeoptions_disable_WAL)(options.none.as_ptr(), 1);
        }
        options
    }
}
