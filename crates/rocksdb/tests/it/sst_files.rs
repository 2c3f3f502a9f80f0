//! Files of sorted keys, written outside and ingested.

use std::path::{Path, PathBuf};

use terrace_rocksdb::{IngestFiles, RocksDb, RocksError};

use crate::databases::{get, open, put, some};

fn write(db: &RocksDb, file: &Path, keys: &[&str]) -> Result<PathBuf, RocksError> {
    let mut writer = db.sst_writer(file)?;
    for key in keys {
        writer.put(key.as_bytes(), b"new")?;
    }
    writer.finish()?;
    Ok(file.to_owned())
}

#[test]
fn finished_files_are_ingested_above_what_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = tempfile::tempdir().expect("a folder");
    let db = open(folder.path());
    put(&db, "rows", &[("b", "old"), ("x", "old")]);
    let family = db.family("rows").expect("it was made");
    for (how, names) in [(IngestFiles::Copy, ["1", "2"]), (IngestFiles::Move, ["3", "4"])] {
        let paths = names.map(|name| files.path().join(name));
        write(&db, &paths[0], &["a", "b"]).expect("a disk");
        write(&db, &paths[1], &["c", "d"]).expect("a disk");
        family.ingest(&paths, how).expect("a disk");
        let is_left = paths.iter().all(|path| path.exists());
        assert_eq!(is_left, how == IngestFiles::Copy, "{how:?}");
    }
    family.ingest(&[], IngestFiles::Copy).expect("nothing to do");
    drop(family);
    drop(db);
    let db = open(folder.path());
    let family = db.family("rows").expect("it was made");
    let want = some(&["new", "new", "new", "new", "old"]);
    assert_eq!(get(&family, &["a", "b", "c", "d", "x"]), want);
}

#[test]
fn files_that_are_not_sorted_sets_of_keys_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(folder.path());
    let file = folder.path().join("file.sst");
    for keys in [&["b", "a"][..], &["a", "a"], &[]] {
        let error = write(&db, &file, keys).expect_err("not ascending");
        assert!(matches!(error, RocksError::InvalidArgument(_)), "{keys:?}: {error:?}");
        assert!(error.to_string().contains("file.sst"), "{error}");
    }
    let error = write(&db, &folder.path().join("none/file"), &["a"]).expect_err("no folder");
    assert!(matches!(error, RocksError::Io(_)), "{error:?}");

    let family = db.family("default").expect("there is always one");
    let missing = family.ingest(&[folder.path().join("missing")], IngestFiles::Copy);
    assert!(matches!(missing, Err(RocksError::Io(_))), "{missing:?}");
    std::fs::write(&file, "no table").expect("a file");
    let damaged = family.ingest(&[file], IngestFiles::Copy);
    assert!(matches!(damaged, Err(RocksError::Corruption(_))), "{damaged:?}");
}
