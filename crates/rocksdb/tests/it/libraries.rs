//! Which library is loaded, and what is said about one that cannot be used.

use std::path::Path;
use std::process::Command;

use terrace_rocksdb::{RocksDb, RocksError, RocksLibrary};

use crate::databases::{library, options};

fn refused(folder: &Path) -> RocksError {
    RocksLibrary::load(&[folder.to_owned()]).err().expect("it cannot be loaded")
}

#[test]
fn the_system_has_one_that_works_and_its_version_is_known() {
    let library = library();
    let version = library.version().unwrap_or_default();
    let numbers: Vec<u32> = version.split('.').filter_map(|number| number.parse().ok()).collect();
    assert!(numbers.len() >= 2, "{version:?} of {}", library.path().display());
    let folder = tempfile::tempdir().expect("a folder");
    RocksDb::open(&library, folder.path(), &options()).expect("a database");
}

#[test]
fn a_named_library_that_does_not_load_is_not_replaced_by_another() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("librocksdb.so.99.1"), "no library").expect("a file");
    let error = refused(folder.path());
    assert!(
        matches!(&error, RocksError::LibraryUnusable { path, .. }
        if path.ends_with("librocksdb.so.99.1")),
        "{error:?}"
    );
}

#[test]
fn a_library_without_a_function_is_refused_by_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("librocksdb.so.99.1");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-x", "c", "/dev/null", "-o"]).arg(&path);
    assert!(compiler.status().expect("cc").success());
    let error = refused(folder.path());
    let RocksError::FunctionMissing { function, .. } = error else { panic!("{error:?}") };
    assert_eq!(function, "rocksdb_free");
}
