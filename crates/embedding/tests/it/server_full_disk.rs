//! A server whose database has no room: rows are looked up on, updates wait, and none is lost.
//!
//! A limit to the child's files stands in for a full disk.

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::kafka_broker::wait_until;
use crate::served::write_files;
use crate::served_child::{ChildServer, KEYS, RunningChild, keys};
use crate::served_feed::{FILES_MS, ServedFeed, set_time};

fn limit(running: &RunningChild, bytes: Option<u64>) {
    let limit = Rlimit { current: bytes, maximum: None };
    prlimit(Some(Pid::from_child(&running.child)), Resource::Fsize, limit).expect("our own child");
}

fn check(persistent: &str) {
    let (folder, feed) = (tempfile::tempdir().expect("a folder"), ServedFeed::start());
    let files = folder.path().join("files");
    write_files(&files, &keys(), 1);
    set_time(&files, FILES_MS);
    let brokers = feed.proxy.address();
    let child = ChildServer { folder: folder.path(), persistent, brokers, nodes: String::new() };
    let mut running = child.start();
    running.wait_until_it_serves();
    feed.publish(&keys(), 2);
    wait_until("updates come", || running.versions() == vec![Some(2); KEYS as usize]);
    limit(&running, Some(1));
    feed.publish(&keys(), 3);
    wait_until("updates cannot be applied", || running.errors() > 0);
    for _ in 0..20 {
        let found = running.versions();
        assert!(found.iter().all(|it| matches!(it, Some(2 | 3))), "{found:?}");
    }
    limit(&running, None);
    feed.publish(&keys()[..10], 4);
    // Some stores write again by themselves, others after a restart.
    running.kill();
    let mut running = child.start();
    running.wait_until_it_serves();
    let want: Vec<_> = (0..KEYS).map(|key| Some(if key < 10 { 4 } else { 3 })).collect();
    wait_until("nothing is lost", || running.versions() == want);
}

#[test]
fn a_server_over_a_full_rocksdb_serves_and_loses_no_update() {
    check("rocksdb");
}

#[test]
fn a_server_over_a_full_embedded_store_serves_and_loses_no_update() {
    check("embedded");
}
