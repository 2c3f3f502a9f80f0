//! Folders of databases: who has one, who may only read it, and which are none.
//!
//! The second process is this test binary, asked for one ignored test.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use terrace_rocksdb::is_rocksdb_folder;
use terrace_rocksdb::{Durability, IngestFiles, RocksDb, RocksError, RocksOptions};

use crate::databases::{get, library, open, open_to_read, options, put, some};

const FOLDER: &str = "TERRACE_ROCKSDB_FOLDER";

#[test]
fn a_folder_is_known_once_it_has_a_database() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(!is_rocksdb_folder(folder.path()));
    let db = open(folder.path());
    assert!(is_rocksdb_folder(folder.path()));
    drop(db);
    assert!(is_rocksdb_folder(folder.path()));
}

#[test]
fn a_folder_is_opened_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(folder.path());
    let error = RocksDb::open(&library(), folder.path(), &options()).err().expect("it is open");
    assert!(matches!(error, RocksError::Locked(_)), "{error:?}");
    assert!(error.to_string().contains(&folder.path().display().to_string()), "{error}");
    drop(db);
    open(folder.path());
}

/// Writes, says so, and lives until it is killed.
#[test]
#[ignore = "it is the child of the next test"]
fn child_that_has_a_database() {
    let folder = std::env::var_os(FOLDER).expect("the next test runs this one");
    let db = open(folder.as_ref());
    put(&db, "rows", &[("k", "v")]);
    db.flush_wal().expect("a disk");
    println!("\nwritten");
    std::thread::sleep(std::time::Duration::from_secs(600));
}

#[test]
fn a_folder_of_another_process_is_refused_and_its_flushed_log_survives_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = Command::new(std::env::current_exe().expect("this binary"));
    child.args(["--ignored", "--exact", "--nocapture", "folders::child_that_has_a_database"]);
    let mut child = child.env(FOLDER, folder.path()).stdout(Stdio::piped()).spawn().expect("one");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert!(lines.any(|line| line.expect("text") == "written"), "the child has written");

    let refused = RocksDb::open(&library(), folder.path(), &options()).err();
    let read = get(&open_to_read(folder.path()).family("rows").expect("it was made"), &["k"]);
    child.kill().expect("the child lives");
    child.wait().expect("the child ends");
    assert!(matches!(refused, Some(RocksError::Locked(_))), "{refused:?}");
    assert_eq!(read, some(&["v"]), "read only takes no lock");
    assert_eq!(
        get(&open(folder.path()).family("rows").expect("it was made"), &["k"]),
        some(&["v"])
    );
}

#[test]
fn a_database_that_is_read_only_refuses_every_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(folder.path());
    put(&db, "rows", &[("k", "v")]);
    let file = folder.path().join("file.sst");
    let mut writer = db.sst_writer(&file).expect("a file");
    writer.put(b"l", b"w").expect("a disk");
    writer.finish().expect("a disk");
    drop(db);

    let db = open_to_read(folder.path());
    let family = db.family("rows").expect("it was made");
    assert_eq!(get(&family, &["k", "l"]), [Some("v".to_owned()), None]);
    let mut batch = db.write_batch();
    batch.put(&family, b"k", b"w").expect("it fits");
    for (what, result) in [
        ("write", batch.write(Durability::Wal)),
        ("create", db.create_family("more").map(drop)),
        ("drop", db.drop_family("rows")),
        ("flush", family.flush()),
        ("compact", family.compact()),
        ("ingest", family.ingest(&[file], IngestFiles::Copy)),
        ("flush the log", db.flush_wal()),
        ("sync the log", db.sync_wal()),
    ] {
        assert!(matches!(result, Err(RocksError::ReadOnly(_))), "{what}: {result:?}");
    }
    assert_eq!(get(&family, &["k", "l"]), [Some("v".to_owned()), None]);
    drop((family, batch));
    assert_eq!(db.close(), Ok(()));
}

#[test]
fn what_cannot_be_opened_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |name: &str, options: &RocksOptions, is_wanted: fn(&RocksError) -> bool| {
        let error = RocksDb::open(&library(), &folder.path().join(name), options);
        let error = error.err().expect("it cannot be opened");
        assert!(is_wanted(&error), "{name}: {error:?}");
    };
    let read_only = RocksOptions { read_only: true, ..options() };
    check("none", &read_only, |error| matches!(error, RocksError::Io(_)));
    assert!(!folder.path().join("none").exists(), "reading makes nothing");

    std::fs::write(folder.path().join("file"), "no folder").expect("a file");
    check("file", &options(), |error| matches!(error, RocksError::Io(_)));
    check("a\0b", &read_only, |error| matches!(error, RocksError::InvalidArgument(_)));
    let no_threads = RocksOptions { num_threads: 0, ..options() };
    check("idle", &no_threads, |error| matches!(error, RocksError::InvalidArgument(_)));

    std::fs::create_dir(folder.path().join("damaged")).expect("a folder");
    std::fs::write(folder.path().join("damaged/CURRENT"), "nonsense").expect("a file");
    check("damaged", &options(), |error| matches!(error, RocksError::Corruption(_)));
}
