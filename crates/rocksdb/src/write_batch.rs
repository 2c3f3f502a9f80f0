//! Changes that are written together, all or none, to any families of one database.

use std::sync::Arc;

use crate::c_bytes::check_length;
use crate::db_borrow::DbBorrow;
use crate::durability::Durability;
use crate::family::Family;
use crate::family_handle::FamilyHandle;
use crate::objects::BatchObject;
use crate::owned_object::OwnedObject;
use crate::rocks_error::RocksError;

/// A database that has batches in use cannot be closed:
///
/// ```compile_fail,E0505
/// fn close(db: terrace_rocksdb::RocksDb) {
///     let batch = db.write_batch();
///     drop(db);
/// }
/// ```
pub struct WriteBatch<'db> {
    object: OwnedObject<BatchObject>,
    /// Those that it has changes of.
    families: Vec<Arc<FamilyHandle>>,
    open: DbBorrow<'db>,
}

impl<'db> WriteBatch<'db> {
    pub(crate) fn new(open: DbBorrow<'db>) -> Self {
        let create = open.functions().writebatch_create;
        // SAFETY: the function makes a batch.
        let object = unsafe { OwnedObject::create(open.library(), create) };
        WriteBatch { object, families: Vec::new(), open }
    }

    /// Later changes of a key in a batch win.
    pub fn put(
        &mut self,
        family: &Family<'db>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), RocksError> {
        self.take(family, &[key, value])?;
        let put = self.open.functions().writebatch_put_cf;
        let (batch, family) = (self.object.as_ptr(), family.handle.as_ptr());
        let (key_bytes, value_bytes) = (key.len(), value.len());
        // SAFETY: the batch is ours alone, the family is open; the batch copies the bytes.
        unsafe {
            put(batch, family, key.as_ptr().cast(), key_bytes, value.as_ptr().cast(), value_bytes);
        }
        Ok(())
    }

    /// A key that is not there is none.
    pub fn delete(&mut self, family: &Family<'db>, key: &[u8]) -> Result<(), RocksError> {
        self.take(family, &[key])?;
        let delete = self.open.functions().writebatch_delete_cf;
        let (batch, family) = (self.object.as_ptr(), family.handle.as_ptr());
        // SAFETY: as for `put`.
        unsafe { delete(batch, family, key.as_ptr().cast(), key.len()) };
        Ok(())
    }

    pub fn count(&self) -> usize {
        // SAFETY: the batch is ours alone.
        let count = unsafe { (self.open.functions().writebatch_count)(self.object.as_ptr()) };
        usize::try_from(count).expect("a count is not negative")
    }

    pub fn clear(&mut self) {
        self.families.clear();
        // SAFETY: the batch is ours alone.
        unsafe { (self.open.functions().writebatch_clear)(self.object.as_ptr()) };
    }

    /// The changes stay in the batch: it is cleared to be filled anew. Nothing is written if one of
    /// its families was dropped.
    pub fn write(&mut self, durability: Durability) -> Result<(), RocksError> {
        let what = "write to";
        self.open.require_writable(what)?;
        if self.families.iter().any(|family| family.is_dropped()) {
            let reason = "a family of the batch was dropped";
            return Err(RocksError::invalid(&self.open.attempt(what), reason));
        }
        let (db, options) = (self.open.object.as_ptr(), self.open.write_options(durability));
        self.open.library().checked(
            || self.open.attempt(what),
            // SAFETY: the database is open; the batch, which is numbered by this, is ours alone.
            |error| unsafe {
                (self.open.functions().write)(db, options, self.object.as_ptr(), error);
            },
        )
    }

    /// RocksDB's C API says nothing where a batch cannot take a change, so it is asked here.
    fn take(&mut self, family: &Family<'db>, texts: &[&[u8]]) -> Result<(), RocksError> {
        assert!(self.open.is_of(&family.open), "the family is of another database");
        for text in texts {
            check_length(|| self.open.attempt("write to"), text)?;
        }
        if !self.families.iter().any(|known| Arc::ptr_eq(known, &family.handle)) {
            self.families.push(Arc::clone(&family.handle));
        }
        Ok(())
    }
}
