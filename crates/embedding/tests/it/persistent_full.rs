//! Disks without room: writes fail with the reason, rows are read on, and when there is room again
//! writes go on or say what to do.
//!
//! The child is this test binary, asked for one ignored test. A limit to its files stands in for a
//! full disk: whoever writes beyond it gets an error, as the child ignores the signal.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{ChildStdout, Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use terrace_embedding::{KeyKind, RowStore};
use terrace_tiers::TierError;

use crate::persistent_stores::{Kind, open, spec, versioned_rows, versions};

const FOLDER: &str = "TERRACE_FULL_FOLDER";
const KIND: &str = "TERRACE_FULL_KIND";
const HOW: &str = "TERRACE_FULL_HOW";
const DIM: usize = 32;
const LIMIT_BYTES: u64 = 512 << 10;

fn wait_for_parent() {
    std::io::stdin().read_line(&mut String::new()).expect("its parent");
}

/// The keys of the first version, which are there whatever happens.
fn first_keys() -> Vec<i64> {
    (0..500).collect()
}

/// Other keys each time. Loaded ones are more than a megabyte, so that they go past log and memory.
fn write(store: &dyn RowStore, how: &str, version: u32) -> Result<(), TierError> {
    let count = if how == "load" { 9_000 } else { 500 };
    let first = i64::from(version - 1) * 9_000;
    let keys: Vec<i64> = (first..first + count).collect();
    let rows = versioned_rows(&keys, version, DIM);
    if how == "load" { store.load_many(&keys, &rows) } else { store.put_many(&keys, &rows) }
}

#[test]
#[ignore = "it is the child of the next tests"]
fn child_that_fills_a_disk() {
    let folder = std::env::var(FOLDER).expect("the next tests run this one");
    let (kind, how) = (std::env::var(KIND).expect("a kind"), std::env::var(HOW).expect("a way"));
    let database = open(Kind::named(&kind), folder.as_ref());
    let store = database.table(&spec("t", KeyKind::I64, DIM)).expect("a table");
    write(&*store, "put", 1).expect("a disk");
    store.sync().expect("a disk");
    println!("\nready");
    wait_for_parent();
    let error = (2..2_000).find_map(|version| write(&*store, &how, version).err());
    assert_eq!(versions(&*store, &first_keys(), DIM), vec![Some(1); 500], "rows are read on");
    let error = error.expect("it is full");
    println!("\nfull {}: {error}", error.kind());
    wait_for_parent();
    match write(&*store, &how, 3_000) {
        Ok(()) => println!("\nagain went on"),
        Err(error) => println!("\nagain {error}"),
    }
    assert_eq!(versions(&*store, &first_keys(), DIM), vec![Some(1); 500], "rows are read on");
}

fn next(lines: &mut Lines<BufReader<ChildStdout>>, word: &str) -> String {
    let line = lines.map(|line| line.expect("text")).find(|line| line.starts_with(word));
    line.unwrap_or_else(|| panic!("the child ended before it was {word}"))
}

fn check(kind: Kind, how: &str, goes_on: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    // What a shell ignores is ignored by what takes its place.
    let mut child = Command::new("sh");
    child.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
    child.arg(std::env::current_exe().expect("this binary"));
    child.args(["--ignored", "--exact", "--nocapture"]);
    child.arg("persistent_full::child_that_fills_a_disk");
    child.env(FOLDER, folder.path()).env(KIND, kind.name()).env(HOW, how);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a child");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut input = child.stdin.take().expect("piped");
    let mut limit = |current| {
        let limit = Rlimit { current, maximum: None };
        prlimit(Some(Pid::from_child(&child)), Resource::Fsize, limit).expect("our own child");
        input.write_all(b"\n").expect("a child");
    };
    next(&mut lines, "ready");
    limit(Some(LIMIT_BYTES));
    let full = next(&mut lines, "full");
    assert!(full.starts_with("full full: ") && full.contains("make room"), "{full}");
    limit(None);
    let again = next(&mut lines, "again");
    match goes_on {
        true => assert_eq!(again, "again went on", "{kind:?} {how}"),
        false => assert!(again.contains("restart"), "{kind:?} {how}: {again}"),
    }
    drop(input);
    assert!(child.wait().expect("a child").success());

    let database = open(kind, folder.path());
    let store = database.table(&spec("t", KeyKind::I64, DIM)).expect("a table");
    // What was written when there was no room is whole or not there.
    let written: Vec<i64> = (0..40 * 9_000).collect();
    versions(&*store, &written, DIM);
    assert_eq!(versions(&*store, &first_keys(), DIM), vec![Some(1); 500], "{kind:?} {how}");
    write(&*store, how, 4_000).expect("there is room");
    let last: Vec<i64> = (3_999 * 9_000..).take(500).collect();
    assert_eq!(versions(&*store, &last, DIM), vec![Some(4_000); 500]);
}

#[test]
fn rocksdb_without_room_for_its_log_says_so() {
    check(Kind::Rocks, "put", false);
}

#[test]
fn rocksdb_without_room_for_files_goes_on_later() {
    check(Kind::Rocks, "load", true);
}

#[test]
fn the_embedded_store_without_room_for_its_journal_says_so() {
    check(Kind::Embedded, "put", false);
}

#[test]
fn the_embedded_store_without_room_for_files_goes_on_later() {
    check(Kind::Embedded, "load", true);
}
