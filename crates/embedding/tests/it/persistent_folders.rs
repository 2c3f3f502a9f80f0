//! Folders of persistent databases: whose they are, and in which format.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use fjall::{Database, KeyspaceCreateOptions};
use serde_json::{Value, json};
use terrace_embedding::{KeyKind, PersistentConfig, open_persistent};

use crate::fixtures::{changed, from_value};
use crate::persistent_stores::{
    KINDS, Kind, check_refused, open, open_to_read, spec, try_open, versioned_rows, versions,
};

const CHILD_FOLDER: &str = "TERRACE_PERSISTENT_FOLDER";
const CHILD_KIND: &str = "TERRACE_PERSISTENT_KIND";
const DIM: usize = 4;

fn fill(kind: Kind, folder: &Path) {
    let database = open(kind, folder);
    let store = database.table(&spec("t", KeyKind::I64, DIM)).expect("a table");
    store.put_many(&[1], &versioned_rows(&[1], 1, DIM)).expect("a disk");
}

fn check_filled(kind: Kind, folder: &Path) {
    let store = open(kind, folder).table(&spec("t", KeyKind::I64, DIM)).expect("a table");
    assert_eq!(versions(&*store, &[1, 2], DIM), [Some(1), None], "{kind:?}");
}

#[test]
fn a_folder_of_the_other_database_is_refused_and_left_as_it_is() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        fill(kind, folder.path());
        let shown = folder.path().display().to_string();
        let mut words = vec!["terrace ps migrate", shown.as_str()];
        if kind == Kind::Rocks {
            words.push("apt-get install librocksdb");
        }
        for read_only in [false, true] {
            check_refused(try_open(kind.other(), folder.path(), read_only), "protocol", &words);
        }
        check_filled(kind, folder.path());
    }
}

#[test]
fn folders_of_other_formats_are_refused_and_left_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    fill(Kind::Embedded, folder.path());
    let file = folder.path().join("terrace.format");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "1\n");
    let check = |text: &str, word: &str| {
        std::fs::write(&file, text).unwrap();
        for read_only in [false, true] {
            check_refused(try_open(Kind::Embedded, folder.path(), read_only), "protocol", &[word]);
        }
    };
    check("2\n", "has format 2, and this program knows 1; use a newer one");
    check("0\n", "has format 0");
    check("", "\"\" in place of a format's number");
    check("one", "\"one\" in place of a format's number");
    std::fs::remove_file(&file).unwrap();
    let foreign = try_open(Kind::Embedded, folder.path(), false);
    check_refused(foreign, "protocol", &["without a file terrace.format", "another program"]);
    std::fs::write(&file, "1\n").unwrap();
    check_filled(Kind::Embedded, folder.path());
}

#[test]
fn a_folder_that_fjall_made_for_somebody_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::builder(folder.path()).open().unwrap();
    database.keyspace("theirs", KeyspaceCreateOptions::default).unwrap();
    drop(database);
    for kind in KINDS {
        check_refused(try_open(kind, folder.path(), false), "protocol", &[]);
    }
}

/// Whatever a process that makes a database was doing when it ended, the next one goes on.
#[test]
fn a_folder_that_was_being_made_is_made() {
    for left in [&[][..], &["lock"], &["lock", "0.jnl"], &["lock", "0.jnl", "keyspaces/"]] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        std::fs::write(path.join("terrace.format.new"), "").unwrap();
        if !left.is_empty() {
            std::fs::write(path.join("terrace.format"), "1\n").unwrap();
        }
        for name in left {
            match name.strip_suffix('/') {
                Some(name) => std::fs::create_dir(path.join(name)).unwrap(),
                None => std::fs::write(path.join(name), "").unwrap(),
            }
        }
        fill(Kind::Embedded, path);
        check_filled(Kind::Embedded, path);
    }
}

/// Whichever file was cut, emptied or changed.
#[test]
fn a_damaged_folder_is_refused_or_gives_rows_that_are_right() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let keys: Vec<i64> = (0..5_000).collect();
        let database = open(kind, folder.path());
        let store = database.table(&spec("t", KeyKind::I64, 64)).unwrap();
        store.load_many(&keys, &versioned_rows(&keys, 1, 64)).unwrap();
        store.put_many(&keys[..10], &versioned_rows(&keys[..10], 2, 64)).unwrap();
        drop((store, database));
        // A journal has room to grow until it is opened again.
        drop(open(kind, folder.path()));
        let mut files = Vec::new();
        list(folder.path(), folder.path(), &mut files);
        assert!(files.len() > 4, "{files:?}");
        for (index, damaged) in files.iter().enumerate() {
            for damage in 0..3 {
                let copy = tempfile::tempdir().unwrap();
                for file in &files {
                    let target = copy.path().join(file);
                    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
                    std::fs::copy(folder.path().join(file), target).unwrap();
                }
                change(&copy.path().join(damaged), damage, index * 977);
                read_all(kind, copy.path(), &keys);
            }
        }
    }
}

fn change(path: &Path, damage: usize, seed: usize) {
    let mut bytes = std::fs::read(path).expect("a disk");
    let name = path.file_name().expect("a name").to_string_lossy();
    match damage {
        0 => bytes.truncate(bytes.len() / 2),
        1 => bytes.clear(),
        // fjall ends the process over some bytes of the list of a table's files, `v1`.
        _ if bytes.is_empty() || name.starts_with('v') => {}
        _ => {
            let at = seed % bytes.len().min(1000);
            bytes[at] ^= 0x55;
        }
    }
    std::fs::write(path, bytes).expect("a disk");
}

/// A row is right or not given.
fn read_all(kind: Kind, folder: &Path, keys: &[i64]) {
    let Ok(database) = try_open(kind, folder, false) else { return };
    let Ok(store) = database.table(&spec("t", KeyKind::I64, 64)) else { return };
    let (mut rows, mut found) = (vec![0.0; keys.len() * 64], vec![false; keys.len()]);
    let _ = store.get_many(keys, &mut rows, &mut found);
    for (key, row) in keys.iter().zip(rows.chunks_exact(64)) {
        if found[*key as usize] {
            assert_eq!(row, versioned_rows(&[*key], row[0] as u32, 64), "{kind:?}");
        }
    }
    let _ = store.scan(100, &mut |_, _| Ok(()));
}

fn list(root: &Path, folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a disk") {
        let path = entry.expect("a disk").path();
        let is_log = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("LOG"));
        match path.is_dir() {
            true => list(root, &path, files),
            false if is_log => {}
            false => files.push(path.strip_prefix(root).expect("a disk").to_owned()),
        }
    }
    files.sort();
}

#[test]
#[ignore = "it is the child of the next test"]
fn child_that_has_a_folder() {
    let folder = std::env::var(CHILD_FOLDER).expect("the next test runs this one");
    let kind = Kind::named(&std::env::var(CHILD_KIND).unwrap());
    let database = open(kind, folder.as_ref());
    println!("\nopen");
    std::thread::sleep(std::time::Duration::from_secs(600));
    drop(database);
}

#[test]
fn a_folder_in_use_is_refused_with_what_to_do() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let shown = folder.path().display().to_string();
        let words = [shown.as_str(), "end", "of its own"];
        let database = open(kind, folder.path());
        check_refused(try_open(kind, folder.path(), false), "unavailable", &words);
        drop(database);

        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--ignored", "--exact", "--nocapture"]);
        child.arg("persistent_folders::child_that_has_a_folder");
        child.env(CHILD_FOLDER, folder.path()).env(CHILD_KIND, kind.name());
        let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "open"));
        check_refused(try_open(kind, folder.path(), false), "unavailable", &words);
        child.kill().unwrap();
        child.wait().unwrap();
        fill(kind, folder.path());
        check_filled(kind, folder.path());
    }
}

#[test]
fn a_folder_that_cannot_be_is_refused() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let shown = file.display().to_string();
        check_refused(try_open(kind, &file, false), "io", &[&shown]);
        let error = try_open(kind, Path::new("/sys/terrace"), false).err().unwrap();
        assert!(["read_only", "io"].contains(&error.kind()), "{error}");
    }
}

fn config(section: Value) -> PersistentConfig {
    let (config, _) = from_value(&changed(&[("persistent_db", section)])).expect("a configuration");
    config.persistent.expect("it is given")
}

#[test]
fn a_configuration_opens_its_database() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        let section = json!({ "type": kind.name(), "path": path });
        let (database, warning) = open_persistent(&config(section.clone()), &[]).unwrap();
        assert_eq!((database.name(), warning), (kind.name(), None));
        drop(database);
        fill(kind, &path);
        let mut section = section;
        section["read_only"] = json!(true);
        let (database, _) = open_persistent(&config(section), &[]).unwrap();
        let store = database.table(&spec("t", KeyKind::I64, DIM)).unwrap();
        check_refused(store.put_many(&[2], &[0.0; DIM]), "read_only", &[]);
        drop((store, database));
        assert!(open_to_read(kind, &path).tags().is_ok_and(|tags| tags.len() == 1));
    }
}

#[test]
fn a_library_that_does_not_load_is_an_error_and_nothing_takes_its_place() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("librocksdb.so"), "none").unwrap();
    let path = folder.path().join("rows");
    let config = config(json!({ "type": "rocksdb", "path": path }));
    let opened = open_persistent(&config, &[folder.path().to_owned()]);
    check_refused(opened, "unavailable", &["does not load", "librocksdb.so"]);
    assert!(!path.exists());
}
