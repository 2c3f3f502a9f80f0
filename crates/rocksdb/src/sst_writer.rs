//! A file of sorted keys, written outside of a database for a family to
//! [ingest](crate::Family::ingest): the fast way to bring many rows in, past log and memtables.

use std::path::Path;

use crate::c_bytes::{c_text, check_length};
use crate::functions::ErrorSlot;
use crate::objects::SstWriterObject;
use crate::open_db::OpenDb;
use crate::owned_object::OwnedObject;
use crate::rocks_error::RocksError;

/// A file that is not [finished](Self::finish) is of no use and stays where it is, to be deleted.
pub struct SstWriter {
    object: OwnedObject<SstWriterObject>,
    /// "cannot write /files/a.sst".
    attempt: String,
}

impl SstWriter {
    /// With the options of a database, so that the file is as those of its families.
    pub(crate) fn create(open: &OpenDb, file: &Path) -> Result<Self, RocksError> {
        let attempt = format!("cannot write {}", file.display());
        let name = c_text(&attempt, file.as_os_str().as_encoded_bytes())?;
        let (library, functions) = (open.library(), open.functions());
        // SAFETY: the function makes options of files.
        let env = unsafe { OwnedObject::create(library, functions.envoptions_create) };
        let (env, options) = (env.as_ptr(), open.options.as_ptr());
        // SAFETY: both options live as long as this call, which copies them.
        let object = unsafe {
            OwnedObject::from_raw(library, (functions.sstfilewriter_create)(env, options))
        };
        let object = object.expect("made by C++'s new, which never gives null");
        let writer = SstWriter { object, attempt };
        writer.checked(|error| {
            // SAFETY: the writer is ours alone; the name is read during the call only.
            unsafe {
                (functions.sstfilewriter_open)(writer.object.as_ptr(), name.as_ptr(), error);
            }
        })?;
        Ok(writer)
    }

    /// Fails unless `key` comes after all before it, in the order of bytes.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), RocksError> {
        for text in [key, value] {
            check_length(|| self.attempt.clone(), text)?;
        }
        let put = self.object.library().functions().sstfilewriter_put;
        let (keys, values) = (key.as_ptr().cast(), value.as_ptr().cast());
        self.checked(|error| {
            // SAFETY: the writer is ours alone and copies the bytes.
            unsafe {
                put(self.object.as_ptr(), keys, key.len(), values, value.len(), error);
            }
        })
    }

    /// Fails for a file without keys.
    pub fn finish(self) -> Result<(), RocksError> {
        let finish = self.object.library().functions().sstfilewriter_finish;
        // SAFETY: the writer is ours alone, and finished once.
        self.checked(|error| unsafe { finish(self.object.as_ptr(), error) })
    }

    fn checked(&self, call: impl FnOnce(ErrorSlot)) -> Result<(), RocksError> {
        self.object.library().checked(|| self.attempt.clone(), call)
    }
}
