//! An object of the library with one owner, destroyed with it by the function that RocksDB has for
//! its kind.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::functions::Functions;
use crate::objects::{
    BatchObject, DbObject, EnvOptionsObject, FamilyObject, FlushOptionsObject, IngestOptionsObject,
    IteratorObject, OptionsObject, ReadOptionsObject, SstWriterObject, WriteOptionsObject,
};
use crate::rocks_library::RocksLibrary;

pub struct OwnedObject<T: Destroy> {
    address: NonNull<T>,
    library: Arc<RocksLibrary>,
}

/// A kind of object.
pub trait Destroy {
    fn destroyer(functions: &Functions) -> unsafe extern "C" fn(*mut Self);
}

// SAFETY: the object goes where its owner goes, so it is sent and shared as a value would be.
unsafe impl<T: Destroy + Send> Send for OwnedObject<T> {}
// SAFETY: as above.
unsafe impl<T: Destroy + Sync> Sync for OwnedObject<T> {}

impl<T: Destroy> OwnedObject<T> {
    /// `None` for null.
    ///
    /// # Safety
    /// `address` was made by a function of this library for the caller, who gives it away here.
    pub unsafe fn from_raw(library: &Arc<RocksLibrary>, address: *mut T) -> Option<Self> {
        let address = NonNull::new(address)?;
        Some(OwnedObject { address, library: Arc::clone(library) })
    }

    /// # Safety
    /// `create` is the library's function that makes such an object.
    pub unsafe fn create(
        library: &Arc<RocksLibrary>,
        create: unsafe extern "C" fn() -> *mut T,
    ) -> Self {
        // SAFETY: the caller's promise, and the function takes nothing.
        let made = unsafe { Self::from_raw(library, create()) };
        made.expect("made by C++'s new, which never gives null")
    }

    /// Valid as long as `self` is.
    pub fn as_ptr(&self) -> *mut T {
        self.address.as_ptr()
    }

    pub fn library(&self) -> &Arc<RocksLibrary> {
        &self.library
    }
}

impl<T: Destroy> Drop for OwnedObject<T> {
    fn drop(&mut self) {
        let destroy = T::destroyer(self.library.functions());
        // SAFETY: the object was made by this library, nobody else owns it, and whatever is made
        // from it is dropped before: the types that hold it see to that.
        unsafe { destroy(self.as_ptr()) };
    }
}

macro_rules! destroyers {
    ($($object:ty: $function:ident;)*) => {
        $(
            impl Destroy for $object {
                fn destroyer(functions: &Functions) -> unsafe extern "C" fn(*mut Self) {
                    functions.$function
                }
            }
        )*
    };
}

destroyers! {
    DbObject: close;
    FamilyObject: column_family_handle_destroy;
    OptionsObject: options_destroy;
    ReadOptionsObject: readoptions_destroy;
    WriteOptionsObject: writeoptions_destroy;
    FlushOptionsObject: flushoptions_destroy;
    IngestOptionsObject: ingestexternalfileoptions_destroy;
    EnvOptionsObject: envoptions_destroy;
    BatchObject: writebatch_destroy;
    IteratorObject: iter_destroy;
    SstWriterObject: sstfilewriter_destroy;
}
