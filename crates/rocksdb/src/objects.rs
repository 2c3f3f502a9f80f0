//! The library's objects, of which only addresses are known here, and which of them threads may
//! share. A type for each, so that no function is called with the address of another.

use std::marker::PhantomData;

macro_rules! objects {
    ($($(#[$comment:meta])* $name:ident;)*) => {
        $(
            $(#[$comment])*
            #[repr(C)]
            pub struct $name {
                _bytes: [u8; 0],
                /// Neither sent nor shared unless it is said below.
                _not_shared: PhantomData<*mut u8>,
            }
        )*
    };
}

objects! {
    /// `rocksdb_t`
    DbObject;
    /// `rocksdb_column_family_handle_t`
    FamilyObject;
    /// `rocksdb_options_t`: of a database and of its families
    OptionsObject;
    /// `rocksdb_readoptions_t`
    ReadOptionsObject;
    /// `rocksdb_writeoptions_t`
    WriteOptionsObject;
    /// `rocksdb_flushoptions_t`
    FlushOptionsObject;
    /// `rocksdb_ingestexternalfileoptions_t`
    IngestOptionsObject;
    /// `rocksdb_envoptions_t`
    EnvOptionsObject;
    /// `rocksdb_writebatch_t`
    BatchObject;
    /// `rocksdb_iterator_t`
    IteratorObject;
    /// `rocksdb_sstfilewriter_t`
    SstWriterObject;
    /// `rocksdb_pinnableslice_t`
    PinnedObject;
}

// SAFETY: "a DB is safe for concurrent access from multiple threads without any external
// synchronization" (rocksdb/db.h); it is closed by its only owner.
unsafe impl Send for DbObject {}
// SAFETY: as above.
unsafe impl Sync for DbObject {}

// SAFETY: a handle is a counted reference that the database's functions only read; counting is
// behind the database's own lock.
unsafe impl Send for FamilyObject {}
// SAFETY: as above.
unsafe impl Sync for FamilyObject {}

// SAFETY: plain values that are set by the one thread that makes them and only read from then on.
unsafe impl Send for OptionsObject {}
// SAFETY: as above.
unsafe impl Sync for OptionsObject {}
// SAFETY: as above.
unsafe impl Send for ReadOptionsObject {}
// SAFETY: as above.
unsafe impl Sync for ReadOptionsObject {}
// SAFETY: as above.
unsafe impl Send for WriteOptionsObject {}
// SAFETY: as above.
unsafe impl Sync for WriteOptionsObject {}

// SAFETY: bytes of its own; bound to no thread. Not `Sync`: only its owner calls it.
unsafe impl Send for BatchObject {}
// SAFETY: "if any of the threads may call a non-const method, all threads accessing the same
// Iterator must use external synchronization" (rocksdb/iterator.h): one owner at a time may.
unsafe impl Send for IteratorObject {}
// SAFETY: a file and buffers of its own; bound to no thread.
unsafe impl Send for SstWriterObject {}
