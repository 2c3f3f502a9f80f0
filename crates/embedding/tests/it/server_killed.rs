//! Servers that are killed while they load and while updates come: no row is wrong, and nothing
//! that was committed is lost.
//!
//! `TERRACE_KILLS` says how often one is killed, `TERRACE_SEED` when.

use std::path::Path;
use std::time::{Duration, Instant};

use terrace_testkit::{RedisCluster, Rng};

use crate::kafka_broker::PATIENCE;
use crate::persistent_killed::number;
use crate::served::write_files;
use crate::served_child::{ChildServer, RunningChild, keys};
use crate::served_feed::{FILES_MS, ServedFeed, set_time};

/// What the rows of keys must come to be.
struct Published {
    feed: ServedFeed,
    version: u32,
    /// Of the newest files, and after which version they were written.
    files: u32,
}

impl Published {
    fn time_ms(&self) -> i64 {
        FILES_MS + i64::from(self.version) * 1_000
    }

    fn publish(&mut self, rng: &mut Rng) {
        self.version += 1;
        let mut all = keys();
        rng.shuffle(&mut all);
        all.truncate(1 + rng.below(100));
        self.feed.publish_at(&all, self.version, self.time_ms());
    }

    /// Takes the place of all that was published before.
    fn write_files(&mut self, files: &Path) {
        self.version += 1;
        self.files = self.version;
        write_files(files, &keys(), self.version);
        set_time(files, self.time_ms());
    }

    fn want(&self) -> Vec<Option<u32>> {
        let newest = |key: &i64| Some(self.feed.newest(*key, self.files).max(self.files));
        keys().iter().map(newest).collect()
    }
}

fn settle(child: &mut RunningChild, published: &Published) {
    let want = published.want();
    let begun = Instant::now();
    loop {
        let found = child.versions();
        if found == want {
            return;
        }
        let pairs = keys().into_iter().zip(found.into_iter().zip(&want));
        let wrong: Vec<_> = pairs.filter(|(_, (found, want))| found != *want).collect();
        let files = published.files;
        assert!(begun.elapsed() < PATIENCE, "files {files}, found and wanted: {wrong:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn check(persistent: &str, seed: u64) {
    let mut rng = Rng::new(number("TERRACE_SEED", seed));
    let (folder, cluster) = (tempfile::tempdir().expect("a folder"), RedisCluster::start());
    let files = folder.path().join("files");
    let mut published = Published { feed: ServedFeed::start(), version: 0, files: 0 };
    let child = ChildServer {
        folder: folder.path(),
        persistent,
        brokers: published.feed.proxy.address(),
        nodes: cluster.nodes().join(","),
    };
    published.write_files(&files);
    for kill in 0..number("TERRACE_KILLS", 4) {
        // Now and then there is something to load.
        if rng.below(3) == 0 {
            published.write_files(&files);
        }
        let mut running = child.start();
        if kill % 2 == 0 {
            // While it starts, which takes about so long.
            std::thread::sleep(Duration::from_micros(rng.below(400_000) as u64));
        } else {
            running.wait_until_it_serves();
            for _ in 0..rng.below(20) {
                published.publish(&mut rng);
            }
            let delay = rng.below(8_000_000) as u64;
            std::thread::sleep(Duration::from_micros(delay));
            let old = running.versions().into_iter().zip(published.want());
            assert!(old.into_iter().all(|(found, want)| found <= want && found.is_some()));
        }
        running.kill();
        published.publish(&mut rng);
    }
    let mut running = child.start();
    running.wait_until_it_serves();
    settle(&mut running, &published);
}

#[test]
fn a_server_over_rocksdb_that_is_killed_loses_nothing() {
    check("rocksdb", 11);
}

#[test]
fn a_server_over_the_embedded_store_that_is_killed_loses_nothing() {
    check("embedded", 12);
}
