//! The keys of a family in ascending order of bytes, as they were when the iterator was made.

use std::sync::Arc;

use crate::c_bytes::c_bytes;
use crate::db_borrow::DbBorrow;
use crate::family_handle::FamilyHandle;
use crate::objects::{IteratorObject, ReadOptionsObject};
use crate::owned_object::OwnedObject;
use crate::rocks_error::RocksError;

/// RocksDB's guide has compactions, which read as a scan does, read at least 2 MB at once from
/// slow disks.
const READAHEAD_BYTES: usize = 2 << 20;

/// Reads past the block cache, so that a scan does not empty it. A database that has iterators in
/// use cannot be closed:
///
/// ```compile_fail,E0505
/// fn close(db: terrace_rocksdb::RocksDb) {
///     let rows = db.family("rows").map(|family| family.iterate(None));
///     drop(db);
/// }
/// ```
pub struct FamilyIterator<'db> {
    // The order of the fields is that in which they are destroyed.
    object: OwnedObject<IteratorObject>,
    _options: OwnedObject<ReadOptionsObject>,
    _family: Arc<FamilyHandle>,
    open: DbBorrow<'db>,
    /// The row at which the library stands was given out.
    is_given: bool,
}

/// Where they lie until the iterator moves on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyValue<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
}

impl<'db> FamilyIterator<'db> {
    pub(crate) fn new(open: DbBorrow<'db>, family: Arc<FamilyHandle>, from: Option<&[u8]>) -> Self {
        let functions = open.functions();
        // SAFETY: the function makes options of reads.
        let options = unsafe { OwnedObject::create(open.library(), functions.readoptions_create) };
        // SAFETY: the options were just made; database and family are open, and the iterator
        // is destroyed before them. The key is read during the call only.
        let object = unsafe {
            (functions.readoptions_set_fill_cache)(options.as_ptr(), 0);
            (functions.readoptions_set_readahead_size)(options.as_ptr(), READAHEAD_BYTES);
            let create = functions.create_iterator_cf;
            let iterator = create(open.object.as_ptr(), options.as_ptr(), family.as_ptr());
            match from {
                Some(key) => (functions.iter_seek)(iterator, key.as_ptr().cast(), key.len()),
                None => (functions.iter_seek_to_first)(iterator),
            }
            OwnedObject::from_raw(open.library(), iterator)
        };
        let object = object.expect("made by C++'s new, which never gives null");
        FamilyIterator { object, _options: options, _family: family, open, is_given: false }
    }

    /// The next key and its value; `None` after the last.
    pub fn next_row(&mut self) -> Result<Option<KeyValue<'_>>, RocksError> {
        let functions = self.open.functions();
        let iterator = self.object.as_ptr();
        // SAFETY: the iterator lives as long as `self`; it is moved on only from a valid row.
        let is_valid = unsafe {
            if self.is_given && (functions.iter_valid)(iterator) != 0 {
                (functions.iter_next)(iterator);
            }
            (functions.iter_valid)(iterator) != 0
        };
        self.is_given = true;
        if !is_valid {
            let attempt = || self.open.attempt("read on in");
            // SAFETY: as above.
            let read_error = |error| unsafe { (functions.iter_get_error)(iterator, error) };
            return self.open.library().checked(attempt, read_error).map(|()| None);
        }
        let bytes_by = |read: unsafe extern "C" fn(_, _) -> _| {
            let mut length = 0;
            // SAFETY: the iterator stands at a row, whose bytes stay where they are until it moves;
            // it moves only by `&mut self`, which the slices keep borrowed.
            unsafe { c_bytes(read(iterator.cast_const(), &raw mut length), length) }
        };
        let (key, value) = (bytes_by(functions.iter_key), bytes_by(functions.iter_value));
        Ok(Some(KeyValue { key, value }))
    }
}
