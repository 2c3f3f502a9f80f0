//! Models that are loaded and unloaded again and again: memory and threads return to where they
//! were. Counted in a process of its own, where nothing else runs.

use std::process::Command;

use serde_json::json;
use terrace_testkit::wait_until;

use crate::served::{config, open_databases, start_beside, versions, write_files};
use crate::served_feed::{FILES_MS, ServedFeed, set_time};

const KEYS: i64 = 20_000;
/// Loads before anything is counted: what is made once is there then.
const FIRST: usize = 10;
const LOADS: usize = 100;
/// A load takes about 2 MiB in memory and hot cache, so 100 that stay would be 200.
const GROWN_MIB_MOST: usize = 48;

/// A field of this process's status.
fn status(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a field");
    let number = line.trim_start_matches(':').split_whitespace().next();
    number.and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn a_hundred_loads_and_unloads_leave_no_memory_and_no_thread() {
    let mut child = Command::new(std::env::current_exe().expect("this binary"));
    child.args(["--ignored", "--exact", "--nocapture"]);
    child.arg("set_unloads::child_that_loads_and_unloads");
    let output = child.output().expect("a child");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}\n{errors}");
}

#[test]
#[ignore = "it is the child of another test"]
fn child_that_loads_and_unloads() {
    let (folder, feed) = (tempfile::tempdir().expect("a folder"), ServedFeed::start());
    let files = folder.path().join("files");
    let keys: Vec<i64> = (0..KEYS).collect();
    write_files(&files, &keys, 1);
    set_time(&files, FILES_MS);
    let levels = json!({
        "volatile_db": { "type": "hash_map" },
        "persistent_db": { "type": "embedded", "path": folder.path().join("db") },
        "update_source": feed.source(),
    });
    let cache = json!({ "gpucache": true, "gpucacheper": 1.0 });
    let config = config(&files, &levels, &cache);
    let databases = open_databases(&config);
    let load = || {
        let set = start_beside(&databases, &config);
        assert_eq!(versions(&set, &[5, 19_999]), [Some(1); 2]);
    };
    (0..FIRST).for_each(|_| load());
    let mut threads = status("Threads");
    wait_until("its first threads have ended", || {
        let before = std::mem::replace(&mut threads, status("Threads"));
        std::thread::sleep(std::time::Duration::from_millis(500));
        before == threads && threads == status("Threads")
    });
    let kib = status("VmRSS");
    (0..LOADS).for_each(|_| load());
    wait_until("no thread is left", || status("Threads") <= threads);
    let grown_mib = status("VmRSS").saturating_sub(kib) / 1024;
    println!("{threads} threads, {kib} KiB, {grown_mib} MiB more");
    assert!(grown_mib <= GROWN_MIB_MOST, "{LOADS} loads have left {grown_mib} MiB");
}
