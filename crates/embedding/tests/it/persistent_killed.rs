//! Processes that are killed while they write: no row is torn, nothing acknowledged is lost, and
//! records claim no more than there is.
//!
//! The child is this test binary, asked for one ignored test. `TERRACE_KILLS` says how often one is
//! killed, `TERRACE_SEED` when.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use terrace_embedding::{KeyKind, RowDatabase, RowStore, TableRecord};
use terrace_testkit::Rng;

use crate::persistent_stores::{Kind, open, spec, tag, versioned_rows, versions};

const FOLDER: &str = "TERRACE_KILLED_FOLDER";
const KIND: &str = "TERRACE_KILLED_KIND";
const HOW: &str = "TERRACE_KILLED_HOW";
const FIRST: &str = "TERRACE_KILLED_FIRST";
const DIM: usize = 128;
/// More than a megabyte, so that it is loaded past log and memory.
const BATCH: i64 = 2_100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// The same keys again and again, each time in another version.
    Put,
    /// New keys each time, and a record of them.
    Load,
}

/// Of the environment.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn batch(round: u64) -> Vec<i64> {
    let first = round as i64 * BATCH;
    (first..first + BATCH).collect()
}

/// Writes until it is killed. Says "written 5" when round 5 is acknowledged, "synced 5" when it is
/// synced or in the record.
#[test]
#[ignore = "it is the child of the next tests"]
fn child_that_writes_until_it_is_killed() {
    let folder = std::env::var(FOLDER).expect("the next tests run this one");
    let kind = Kind::named(&std::env::var(KIND).expect("its kind"));
    let is_put = std::env::var(HOW).is_ok_and(|how| how == "Put");
    let database = open(kind, folder.as_ref());
    let spec = spec("t", KeyKind::I64, DIM);
    let store = database.table(&spec).expect("a table");
    for round in number(FIRST, 1).. {
        let keys = if is_put { batch(0) } else { batch(round) };
        let rows = versioned_rows(&keys, round as u32, DIM);
        match is_put {
            true => store.put_many(&keys, &rows).expect("a disk"),
            false => store.load_many(&keys, &rows).expect("a disk"),
        }
        println!("\nwritten {round}");
        if round % 3 == 0 {
            let loaded_rows = (round + 1) * BATCH as u64;
            let record = TableRecord { loaded_rows, ..TableRecord::new(&spec) };
            match is_put {
                true => store.sync().expect("a disk"),
                false => database.write_record(&tag("t"), &record).expect("a disk"),
            }
            println!("\nsynced {round}");
        }
    }
}

/// The last rounds that were acknowledged and synced; 0 for none.
struct Said {
    written: u64,
    synced: u64,
}

/// Kills a child at a random moment, now and then before it is ready.
fn run_and_kill(folder: &Path, kind: Kind, how: How, first: u64, rng: &mut Rng) -> Said {
    let mut child = Command::new(std::env::current_exe().expect("this binary"));
    child.args(["--ignored", "--exact", "--nocapture"]);
    child.arg("persistent_killed::child_that_writes_until_it_is_killed");
    child.env(FOLDER, folder).env(KIND, kind.name()).env(HOW, format!("{how:?}"));
    let mut child =
        child.env(FIRST, first.to_string()).stdout(Stdio::piped()).spawn().expect("one");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let delay = Duration::from_micros(rng.below(150_000) as u64);
    let mut is_killed = rng.below(4) == 0;
    if is_killed {
        std::thread::sleep(delay);
        child.kill().expect("a child");
    }
    let mut said = Said { written: first - 1, synced: 0 };
    for line in output.lines() {
        let line = line.expect("its output");
        match line.split_once(' ') {
            Some(("written", round)) => said.written = round.parse().expect("a round"),
            Some(("synced", round)) => said.synced = round.parse().expect("a round"),
            _ => continue,
        }
        if !is_killed {
            std::thread::sleep(delay);
            child.kill().expect("a child");
            is_killed = true;
        }
    }
    assert!(is_killed, "the child ended by itself");
    child.wait().expect("a child");
    said
}

/// Every key is of a round that is not older than the last that was acknowledged.
fn check_put(store: &dyn RowStore, said: &Said, kill: u64) {
    let found = versions(store, &batch(0), DIM);
    let newest = found.iter().flatten().max().copied().unwrap_or(0);
    assert!(u64::from(newest) <= said.written + 1, "kill {kill}: {newest}");
    for (key, version) in found.into_iter().enumerate() {
        let version = u64::from(version.unwrap_or(0));
        assert!(version >= said.written, "kill {kill}: key {key} is of {version}");
    }
}

fn check_load(database: &dyn RowDatabase, store: &dyn RowStore, said: &Said, kill: u64) {
    let record = database.record(&tag("t")).expect("a disk").expect("the table was made");
    assert!(said.synced == 0 || record.loaded_rows >= (said.synced + 1) * BATCH as u64);
    let claimed = record.loaded_rows / BATCH as u64;
    for round in 1..=said.written + 1 {
        let found = versions(store, &batch(round), DIM);
        let is_certain = round <= said.written || round < claimed;
        let count = found.iter().filter(|version| **version == Some(round as u32)).count();
        assert!(!is_certain || count == found.len(), "kill {kill}: {count} rows of {round}");
    }
}

fn check(kind: Kind, how: How) {
    let mut rng = Rng::new(number("TERRACE_SEED", 3));
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = 1;
    for kill in 0..number("TERRACE_KILLS", 6) {
        let said = run_and_kill(folder.path(), kind, how, first, &mut rng);
        let database = open(kind, folder.path());
        let store = database.table(&spec("t", KeyKind::I64, DIM)).expect("a table");
        match how {
            How::Put => check_put(&*store, &said, kill),
            How::Load => check_load(&*database, &*store, &said, kill),
        }
        first = said.written + 1;
    }
}

#[test]
fn rocksdb_loses_nothing_that_was_put() {
    check(Kind::Rocks, How::Put);
}

#[test]
fn rocksdb_loses_nothing_that_was_loaded() {
    check(Kind::Rocks, How::Load);
}

#[test]
fn the_embedded_store_loses_nothing_that_was_put() {
    check(Kind::Embedded, How::Put);
}

#[test]
fn the_embedded_store_loses_nothing_that_was_loaded() {
    check(Kind::Embedded, How::Load);
}
