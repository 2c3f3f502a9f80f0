//! The loaded library. It is never unloaded: RocksDB's threads may outlive its databases, and
//! would then run code that is gone.

use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::slice;
use std::sync::Arc;

use libloading::Library;

use crate::find_library::{LibraryFile, SystemPlaces, library_files};
use crate::functions::{ErrorSlot, Functions};
use crate::rocks_error::RocksError;

pub struct RocksLibrary {
    path: PathBuf,
    version: Vec<u32>,
    functions: Functions,
}

impl RocksLibrary {
    /// Looks for it in `folders`, then where systems put it, and then asks the loader. The newest
    /// in the first of `folders` that has one is the one that is meant: if it does not load, no
    /// other is tried. Elsewhere the newest one that loads is taken.
    pub fn load(folders: &[PathBuf]) -> Result<Arc<Self>, RocksError> {
        Self::find(folders, &SystemPlaces::usual()).map(Arc::new)
    }

    /// The file that was loaded; its name alone if the loader found it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// As in "7.8.3", from the file's name: the C API has no function for it. `None` if it is not
    /// in there.
    pub fn version(&self) -> Option<String> {
        let numbers: Vec<_> = self.version.iter().map(u32::to_string).collect();
        (!numbers.is_empty()).then(|| numbers.join("."))
    }

    fn find(folders: &[PathBuf], system: &SystemPlaces) -> Result<Self, RocksError> {
        let newest_in = |folder| library_files(slice::from_ref(folder)).into_iter().next();
        if let Some(file) = folders.iter().find_map(newest_in) {
            return Self::open(file);
        }
        let mut failures = Vec::new();
        let by_loader = LibraryFile { version: Vec::new(), path: system.loader_name.into() };
        for file in library_files(&system.folders).into_iter().chain([by_loader]) {
            match Self::open(file) {
                Ok(library) => return Ok(library),
                Err(error) => failures.push(error.to_string()),
            }
        }
        let searched = folders.iter().chain(&system.folders);
        let searched: Vec<_> = searched.map(|folder| folder.display().to_string()).collect();
        let looked = format!(
            "looked for {}, with and without a version, in {}; {}",
            system.loader_name,
            searched.join(", "),
            failures.join("; ")
        );
        Err(RocksError::LibraryNotFound { looked })
    }

    fn open(file: LibraryFile) -> Result<Self, RocksError> {
        let LibraryFile { version, path } = file;
        // SAFETY: opening runs the library's initialisers; it is RocksDB's by its name, and the
        // user decides what lies in these folders.
        let library = match unsafe { Library::new(&path) } {
            Ok(library) => library,
            Err(error) => {
                return Err(RocksError::LibraryUnusable { path, reason: error.to_string() });
            }
        };
        // SAFETY: names that begin with `rocksdb_` are RocksDB's, the types are those of its
        // header; the library is forgotten below, so it is not unloaded.
        let functions = unsafe { Functions::of(&library) };
        let functions = match functions {
            Ok(functions) => functions,
            Err(function) => return Err(RocksError::FunctionMissing { path, function }),
        };
        std::mem::forget(library);
        Ok(RocksLibrary { path, version, functions })
    }

    pub(crate) fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Does what `call` does with a slot for its error. `attempt` begins the message.
    pub(crate) fn checked(
        &self,
        attempt: impl FnOnce() -> String,
        call: impl FnOnce(ErrorSlot),
    ) -> Result<(), RocksError> {
        let mut slot = null_mut();
        call(&raw mut slot);
        // SAFETY: the slot was null and only the library writes errors into it.
        match unsafe { self.take_text(slot) } {
            None => Ok(()),
            Some(text) => Err(RocksError::of(&attempt(), &text)),
        }
    }

    /// A text that the library made, given back to it; `None` for null.
    ///
    /// # Safety
    /// `text` is null, or ends with a zero and was handed out by this library to be freed.
    pub(crate) unsafe fn take_text(&self, text: *mut c_char) -> Option<String> {
        if text.is_null() {
            return None;
        }
        // SAFETY: not null, and the caller's promise.
        let copied = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        // SAFETY: the caller's promise; it is not used any more.
        unsafe { (self.functions.free)(text.cast()) };
        Some(copied)
    }
}

#[cfg(test)]
impl RocksLibrary {
    /// As an old one, without the functions that came later.
    pub(crate) fn load_required_only() -> Result<Arc<Self>, RocksError> {
        let mut library = Self::find(&[], &SystemPlaces::usual())?;
        library.functions.batched_multi_get_cf = None;
        library.functions.flush_wal = None;
        Ok(Arc::new(library))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_it_is_given_what_to_install() {
        let empty = tempfile::tempdir().expect("a folder");
        let broken = tempfile::tempdir().expect("a folder");
        let file = broken.path().join("librocksdb.so.7");
        std::fs::write(&file, "no library").expect("a file");
        let folders = vec![broken.path().to_owned()];
        let system = SystemPlaces { folders, loader_name: "librocksdb-not-here.so" };
        let found = RocksLibrary::find(&[empty.path().to_owned()], &system);
        let error = found.err().expect("there is none");
        assert!(matches!(error, RocksError::LibraryNotFound { .. }), "{error:?}");
        let message = error.to_string();
        let file = file.canonicalize().expect("its path").display().to_string();
        for part in [
            "apt-get install librocksdb7.8",
            "dnf install rocksdb",
            "brew install rocksdb",
            &empty.path().display().to_string(),
            &file,
            "librocksdb-not-here.so",
        ] {
            assert!(message.contains(part), "no {part} in: {message}");
        }
    }
}
