//! The functions of RocksDB's C API that are called, with the types of its header (`rocksdb/c.h`).
//!
//! All of them are the same from 6.11 to 11.12. Those whose arguments changed in between are not
//! here: a Bloom filter's bits were an `int` and became a `double`, so filters are asked for in the
//! text of the options.

use std::ffi::{c_char, c_int, c_uchar, c_void};

use libloading::Library;

use crate::objects::{
    BatchObject, DbObject, EnvOptionsObject, FamilyObject, FlushOptionsObject, IngestOptionsObject,
    IteratorObject, OptionsObject, PinnedObject, ReadOptionsObject, SstWriterObject,
    WriteOptionsObject,
};

/// Where a function writes the text of its error: null before, and after it if there is none.
pub type ErrorSlot = *mut *mut c_char;

macro_rules! functions {
    (
        required { $($name:ident: fn($($argument:ty),* $(,)?) $(-> $result:ty)?;)* }
        optional { $($extra:ident: fn($($extra_argument:ty),* $(,)?);)* }
    ) => {
        // The names are RocksDB's own.
        #[allow(non_snake_case)]
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $(pub $extra: Option<unsafe extern "C" fn($($extra_argument),*)>,)*
        }

        impl Functions {
            /// Fails with the name of the first required function that the library lacks.
            ///
            /// # Safety
            /// What is under RocksDB's names in the library has the types of RocksDB's header, and
            /// the library is never unloaded.
            pub unsafe fn of(library: &Library) -> Result<Self, &'static str> {
                Ok(Functions {
                    $($name: {
                        let symbol = concat!("rocksdb_", stringify!($name));
                        // SAFETY: the caller's promise.
                        *unsafe { library.get(symbol) }.map_err(|_| symbol)?
                    },)*
                    // SAFETY: the caller's promise.
                    $($extra: unsafe { library.get(concat!("rocksdb_", stringify!($extra))) }
                        .ok()
                        .map(|symbol| *symbol),)*
                })
            }
        }
    };
}

functions! {
    required {
        free: fn(*mut c_void);

        options_create: fn() -> *mut OptionsObject;
        options_destroy: fn(*mut OptionsObject);
        get_options_from_string:
            fn(*const OptionsObject, *const c_char, *mut OptionsObject, ErrorSlot);
        readoptions_create: fn() -> *mut ReadOptionsObject;
        readoptions_destroy: fn(*mut ReadOptionsObject);
        readoptions_set_fill_cache: fn(*mut ReadOptionsObject, c_uchar);
        readoptions_set_readahead_size: fn(*mut ReadOptionsObject, usize);
        writeoptions_create: fn() -> *mut WriteOptionsObject;
        writeoptions_destroy: fn(*mut WriteOptionsObject);
        writeoptions_set_sync: fn(*mut WriteOptionsObject, c_uchar);
        writeoptions_disable_WAL: fn(*mut WriteOptionsObject, c_int);
        writeoptions_set_ignore_missing_column_families: fn(*mut WriteOptionsObject, c_uchar);
        flushoptions_create: fn() -> *mut FlushOptionsObject;
        flushoptions_destroy: fn(*mut FlushOptionsObject);

        list_column_families:
            fn(*const OptionsObject, *const c_char, *mut usize, ErrorSlot) -> *mut *mut c_char;
        list_column_families_destroy: fn(*mut *mut c_char, usize);
        open_column_families: fn(
            *const OptionsObject, *const c_char, c_int, *const *const c_char,
            *const *const OptionsObject, *mut *mut FamilyObject, ErrorSlot,
        ) -> *mut DbObject;
        open_for_read_only_column_families: fn(
            *const OptionsObject, *const c_char, c_int, *const *const c_char,
            *const *const OptionsObject, *mut *mut FamilyObject, c_uchar, ErrorSlot,
        ) -> *mut DbObject;
        close: fn(*mut DbObject);
        create_column_family: fn(
            *mut DbObject, *const OptionsObject, *const c_char, ErrorSlot,
        ) -> *mut FamilyObject;
        drop_column_family: fn(*mut DbObject, *mut FamilyObject, ErrorSlot);
        column_family_handle_destroy: fn(*mut FamilyObject);

        multi_get_cf: fn(
            *mut DbObject, *const ReadOptionsObject, *const *const FamilyObject, usize,
            *const *const c_char, *const usize, *mut *mut c_char, *mut usize, *mut *mut c_char,
        );
        pinnableslice_value: fn(*const PinnedObject, *mut usize) -> *const c_char;
        pinnableslice_destroy: fn(*mut PinnedObject);
        create_iterator_cf:
            fn(*mut DbObject, *const ReadOptionsObject, *mut FamilyObject) -> *mut IteratorObject;
        iter_destroy: fn(*mut IteratorObject);
        iter_valid: fn(*const IteratorObject) -> c_uchar;
        iter_seek_to_first: fn(*mut IteratorObject);
        iter_seek: fn(*mut IteratorObject, *const c_char, usize);
        iter_next: fn(*mut IteratorObject);
        iter_key: fn(*const IteratorObject, *mut usize) -> *const c_char;
        iter_value: fn(*const IteratorObject, *mut usize) -> *const c_char;
        iter_get_error: fn(*const IteratorObject, ErrorSlot);
        property_value: fn(*mut DbObject, *const c_char) -> *mut c_char;
        property_value_cf: fn(*mut DbObject, *mut FamilyObject, *const c_char) -> *mut c_char;

        writebatch_create: fn() -> *mut BatchObject;
        writebatch_destroy: fn(*mut BatchObject);
        writebatch_clear: fn(*mut BatchObject);
        writebatch_count: fn(*mut BatchObject) -> c_int;
        writebatch_put_cf:
            fn(*mut BatchObject, *mut FamilyObject, *const c_char, usize, *const c_char, usize);
        writebatch_delete_cf: fn(*mut BatchObject, *mut FamilyObject, *const c_char, usize);
        write: fn(*mut DbObject, *const WriteOptionsObject, *mut BatchObject, ErrorSlot);
        flush_cf: fn(*mut DbObject, *const FlushOptionsObject, *mut FamilyObject, ErrorSlot);
        compact_range_cf:
            fn(*mut DbObject, *mut FamilyObject, *const c_char, usize, *const c_char, usize);

        envoptions_create: fn() -> *mut EnvOptionsObject;
        envoptions_destroy: fn(*mut EnvOptionsObject);
        sstfilewriter_create:
            fn(*const EnvOptionsObject, *const OptionsObject) -> *mut SstWriterObject;
        sstfilewriter_destroy: fn(*mut SstWriterObject);
        sstfilewriter_open: fn(*mut SstWriterObject, *const c_char, ErrorSlot);
        sstfilewriter_put:
            fn(*mut SstWriterObject, *const c_char, usize, *const c_char, usize, ErrorSlot);
        sstfilewriter_finish: fn(*mut SstWriterObject, ErrorSlot);
        ingestexternalfileoptions_create: fn() -> *mut IngestOptionsObject;
        ingestexternalfileoptions_destroy: fn(*mut IngestOptionsObject);
        ingestexternalfileoptions_set_move_files: fn(*mut IngestOptionsObject, c_uchar);
        ingest_external_file_cf: fn(
            *mut DbObject, *mut FamilyObject, *const *const c_char, usize,
            *const IngestOptionsObject, ErrorSlot,
        );
    }
    // 6.20 has neither, 7.8 has both.
    optional {
        batched_multi_get_cf: fn(
            *mut DbObject, *const ReadOptionsObject, *mut FamilyObject, usize,
            *const *const c_char, *const usize, *mut *mut PinnedObject, *mut *mut c_char, bool,
        );
        flush_wal: fn(*mut DbObject, c_uchar, ErrorSlot);
    }
}
