//! Whole servers and their updates: what reaches which level, what is read again after a restart,
//! and what is not.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use terrace_embedding::{
    DropReason, Level, LevelKind, MissingRows, ParameterServer, PsConfig, RowDatabase, TableRecord,
    UpdateScope,
};
use terrace_testkit::RedisCluster;

use crate::kafka_broker::{PATIENCE, wait_until};
use crate::persistent_stores::{Kind, open};
use crate::served::{self, DIM, config, row, start, start_on, table, versions, write_files};
use crate::served_feed::{
    DENSE_TOPIC, FILES_MS, ServedFeed, TOPIC, counters, level_versions, own, payload, set_time,
    wait_until_at_end,
};

const KEYS: i64 = 40;
const GROUP: &str = "hps.persistent.host";

fn keys() -> Vec<i64> {
    (0..KEYS).collect()
}

struct Setup {
    folder: tempfile::TempDir,
    feed: ServedFeed,
}

impl Setup {
    /// Files of version 1.
    fn new() -> Self {
        let setup =
            Setup { folder: tempfile::tempdir().expect("a folder"), feed: ServedFeed::start() };
        setup.write_files(1, FILES_MS);
        setup
    }

    fn write_files(&self, version: u32, time_ms: i64) {
        write_files(&self.files(), &keys(), version);
        set_time(&self.files(), time_ms);
    }

    fn files(&self) -> PathBuf {
        self.folder.path().join("files")
    }

    fn database(&self, name: &str) -> Value {
        json!({ "type": "embedded", "path": self.folder.path().join(name) })
    }

    fn config(&self, mut levels: Value, model: &Value) -> PsConfig {
        levels["update_source"] = self.feed.source();
        config(&self.files(), &levels, model)
    }

    /// Nothing but a database.
    fn persistent_config(&self) -> PsConfig {
        let levels = json!({ "volatile_db": null, "persistent_db": self.database("db") });
        self.config(levels, &json!({}))
    }

    fn record(&self) -> TableRecord {
        let database: std::sync::Arc<dyn RowDatabase> =
            open(Kind::Embedded, &self.folder.path().join("db"));
        database.record(TOPIC).expect("a disk").expect("a record")
    }

    /// Until a restart goes on behind everything that was published, then ends the server.
    fn stop_when_replayed(&self, server: ParameterServer) {
        wait_until_at_end(&server);
        drop(server);
        assert!(self.record().is_replayed);
    }
}

/// The versions of all keys that updates of these versions lead to.
#[track_caller]
fn check(server: &ParameterServer, want: impl Fn(i64) -> u32) {
    let want: Vec<_> = keys().iter().map(|key| Some(want(*key))).collect();
    assert_eq!(versions(server, &keys()), want);
}

#[test]
fn updates_reach_every_level_and_the_hot_cache() {
    let setup = Setup::new();
    let cluster = RedisCluster::start();
    let redis = json!({ "type": "redis_cluster", "address": cluster.nodes().join(";") });
    let levels = json!({
        "volatile_db": redis,
        "persistent_db": setup.database("db"),
    });
    let cache = json!({ "gpucache": true, "gpucacheper": 1.0 });
    let server = start(&setup.config(levels, &cache));
    setup.feed.publish(&[1, 2, 3, 900], 2);
    setup.feed.publish(&[2, 901], 3);
    let mut all = keys();
    all.extend([900, 901]);
    setup.feed.wait_for_newest(&server, &all, 1);
    wait_until("Redis has all rows", || {
        let want: Vec<_> = all.iter().map(|key| Some(setup.feed.newest(*key, 1))).collect();
        level_versions(&server, LevelKind::Redis, &all) == Ok(want)
    });
    let mut found = vec![0.0; KEYS as usize * DIM];
    let stats =
        server.look_up(table(&server), &keys(), MissingRows::AsConfigured, &mut found).unwrap();
    assert_eq!(stats.hits, stats.unique, "the hot cache has them");
    assert_eq!(counters(&server, UpdateScope::Shared).messages, 4, "two for each partition");
}

#[test]
fn memory_alone_is_brought_up_to_date_from_the_time_of_its_files() {
    let setup = Setup::new();
    setup.feed.publish_at(&[1, 2, 3], 2, FILES_MS - 5_000);
    setup.feed.publish_at(&[3, 4], 3, FILES_MS + 5_000);
    let levels = json!({ "volatile_db": { "type": "hash_map" } });
    let config = setup.config(levels, &json!({}));
    for restart in 0..2 {
        // A host of its own does not wait for the one before.
        let server = start_on(&format!("host{restart}"), &config);
        wait_until("what was published since is there", || versions(&server, &[4]) == [Some(3)]);
        wait_until_at_end(&server);
        check(&server, |key| if key == 3 || key == 4 { 3 } else { 1 });
        let counters = own(&server);
        assert_eq!((counters.messages, counters.commits), (2, 0), "{counters:?}");
    }
}

#[test]
fn a_database_reads_only_what_is_new() {
    let setup = Setup::new();
    setup.feed.publish(&[1, 2, 3, 4], 2);
    let config = setup.persistent_config();
    let server = start(&config);
    setup.feed.wait_for_newest(&server, &keys(), 1);
    setup.stop_when_replayed(server);
    setup.feed.publish(&[4, 5], 3);
    let server = start(&config);
    setup.feed.wait_for_newest(&server, &keys(), 1);
    assert_eq!(own(&server).messages, 2, "one in each partition");
}

fn check_new_files(published_since: &[i64]) {
    let setup = Setup::new();
    setup.feed.publish(&[1, 2, 3, 4], 2);
    let config = setup.persistent_config();
    let server = start(&config);
    setup.feed.wait_for_newest(&server, &keys(), 1);
    setup.stop_when_replayed(server);
    // Nobody has read this when the new version comes.
    setup.feed.publish_at(&[2, 3], 3, FILES_MS + 2_000);
    setup.write_files(10, FILES_MS + 60_000);
    setup.feed.publish_at(published_since, 11, FILES_MS + 61_000);
    let want = |key: i64| if published_since.contains(&key) { 11 } else { 10 };
    for restart in 0..2 {
        let server = start(&config);
        wait_until("what is new has come", || {
            versions(&server, &[6, 7]) == [Some(want(6)), Some(want(7))]
        });
        wait_until_at_end(&server);
        check(&server, want);
        drop(server);
        assert!(setup.record().is_replayed, "{restart}");
    }
}

#[test]
fn new_files_are_followed_by_what_is_published_since_and_nothing_older() {
    check_new_files(&[6, 7]);
}

/// Then nothing is applied, and still a restart must not go back to what was committed before.
#[test]
fn new_files_without_updates_are_never_overwritten_by_what_is_older() {
    check_new_files(&[]);
}

#[test]
fn a_load_without_a_broker_is_followed_by_the_replay_later() {
    let setup = Setup::new();
    setup.feed.publish(&[1, 2, 3, 4], 2);
    let config = setup.persistent_config();
    let server = start(&config);
    setup.feed.wait_for_newest(&server, &keys(), 1);
    setup.stop_when_replayed(server);
    setup.write_files(10, FILES_MS + 500);
    setup.feed.set_broker_up(false);
    let server = start(&config);
    check(&server, |_| 10);
    drop(server);
    assert!(!setup.record().is_replayed);
    setup.feed.set_broker_up(true);
    let server = start(&config);
    wait_until("what is committed comes again", || versions(&server, &[4]) == [Some(2)]);
    wait_until_at_end(&server);
    check(&server, |key| if (1..5).contains(&key) { 2 } else { 10 });
    assert_eq!(setup.feed.broker.committed(GROUP, TOPIC, 2), [Some(1), Some(1)]);
}

#[test]
fn two_servers_that_share_redis_write_each_row_there_once() {
    let setup = Setup::new();
    let cluster = RedisCluster::start();
    let redis = json!({ "type": "redis", "address": cluster.nodes().join(",") });
    let cache = json!({ "gpucache": true, "gpucacheper": 0.5 });
    let servers = ["a", "b"].map(|host| {
        let levels = json!({ "volatile_db": redis, "persistent_db": setup.database(host) });
        start_on(host, &setup.config(levels, &cache))
    });
    servers.iter().for_each(wait_until_at_end);
    let published: usize = (0..10i64)
        .map(|round| {
            let keys: Vec<i64> = (round..round + 15).collect();
            setup.feed.publish(&keys, round as u32 + 2);
            keys.len()
        })
        .sum();
    for server in &servers {
        setup.feed.wait_for_newest(server, &keys(), 1);
        assert!(own(server).rows > 0);
    }
    servers.iter().for_each(wait_until_at_end);
    // Of a key that comes twice in a delivery only the last is written.
    let rows = || servers.iter().map(|it| counters(it, UpdateScope::Shared).messages).sum::<u64>();
    assert_eq!(rows(), 20, "ten messages for each of two partitions, {published} rows");
    for server in &servers {
        assert!(counters(server, UpdateScope::Shared).messages > 0, "each has a partition");
        check(server, |key| setup.feed.newest(key, 1));
    }
}

#[test]
fn a_model_that_no_filter_names_is_left_as_it_is() {
    let setup = Setup::new();
    let check_filters = |host: &str, ram: &str, persistent: &str, want: u32| {
        let mut database = setup.database(host);
        database["update_filters"] = json!([persistent]);
        let levels = json!({
            "volatile_db": { "type": "hash_map", "update_filters": [ram] },
            "persistent_db": database,
        });
        let cache = json!({ "gpucache": true, "gpucacheper": 1.0 });
        let server = start_on(host, &setup.config(levels, &cache));
        wait_until("messages have come", || own(&server).messages > 0);
        wait_until_at_end(&server);
        assert_eq!(versions(&server, &[1, 2]), [Some(want), Some(1)], "{ram} {persistent}");
        let on = |kind| level_versions(&server, kind, &[1]).unwrap()[0];
        let of = |filter: &str| Some(if filter == "m" { 2 } else { 1 });
        let levels = [on(LevelKind::Ram), on(LevelKind::Persistent)];
        assert_eq!(levels, [of(ram), of(persistent)], "{ram} {persistent}");
    };
    setup.feed.publish(&[1], 2);
    check_filters("x", "other", "other", 1);
    check_filters("y", "m", "other", 2);
    check_filters("z", "m", "m", 2);
}

#[test]
fn dense_weights_come_whole_and_are_read_again_after_a_restart() {
    let setup = Setup::new();
    let levels = json!({ "volatile_db": { "type": "hash_map" } });
    let config = setup.config(levels, &json!({}));
    let weights = |version: u64| vec![version as u8; 700_000];
    let publish = |version: u64| {
        let publisher = setup.feed.broker.publisher();
        publisher.publish_dense(DENSE_TOPIC, version, &weights(version)).unwrap();
        publisher.flush(PATIENCE).unwrap();
        // As many as it is cut into.
        (0..3).for_each(|_| setup.feed.proxy.add_time(DENSE_TOPIC, 0, FILES_MS + 1_000));
    };
    let server = start_on("first", &config);
    assert!(server.dense_weights("m").is_none() && server.dense_weights("other").is_none());
    wait_until_at_end(&server);
    let mut seen = 0;
    for version in 1..4 {
        publish(version);
        wait_until("a version has come", || {
            let newest = server.dense_weights("m");
            newest.is_some_and(|newest| {
                assert!(newest.safetensors == weights(newest.version), "whole");
                assert!(newest.version >= seen);
                seen = newest.version;
                newest.version == version
            })
        });
    }
    drop(server);
    let server = start_on("second", &config);
    wait_until("it is read again", || {
        server.dense_weights("m").is_some_and(|newest| newest.version == 3)
    });
}

#[test]
fn what_is_no_update_is_counted_and_nothing_is_lost() {
    let setup = Setup::new();
    let levels = json!({ "volatile_db": { "type": "hash_map" } });
    let server = start(&setup.config(levels, &json!({})));
    let send = |payload: &[u8]| setup.feed.send(TOPIC, 0, payload, FILES_MS + 1_000);
    let narrow = {
        let mut payload = [0x5254_4348u32.to_le_bytes(), (DIM as u32 * 4).to_le_bytes()].concat();
        payload.extend(7u32.to_le_bytes());
        payload.extend(row(7, 9).iter().flat_map(|number| number.to_le_bytes()));
        payload
    };
    let wide = {
        let mut payload = [0x5254_4348u32.to_le_bytes(), 8u32.to_le_bytes()].concat();
        payload.extend(7i64.to_le_bytes());
        payload.extend([0; 8]);
        payload
    };
    let mut random = terrace_testkit::Rng::new(5);
    for _ in 0..20 {
        let bytes: Vec<u8> = (0..random.below(200)).map(|_| random.number() as u8).collect();
        send(&bytes);
    }
    send(&narrow);
    send(&wide);
    send(&payload([(7, row(7, 9))].into_iter())[..20]);
    setup.feed.publish(&[8], 2);
    setup.feed.wait_for_newest(&server, &keys(), 1);
    wait_until("all of them are counted", || own(&server).messages == 24);
    let counters = own(&server);
    assert_eq!(counters.dropped_for(DropReason::Dim), 1);
    assert_eq!(counters.dropped.iter().sum::<u64>() + counters.beacons, 23);
    check(&server, |key| if key == 8 { 2 } else { 1 });
}

/// Updates may begin long after a server did.
#[test]
fn a_topic_that_is_not_there_yet_holds_nothing_up() {
    let feed_of_other = crate::kafka_broker::KafkaBroker::start(&[("other", 1)]);
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = RedisCluster::start();
    write_files(folder.path().join("files").as_path(), &keys(), 1);
    let brokers = feed_of_other.cluster.bootstrap_servers();
    let levels = json!({
        "volatile_db": { "type": "redis", "address": cluster.nodes().join(",") },
        "persistent_db": { "type": "embedded", "path": folder.path().join("db") },
        "update_source": crate::served_feed::update_source(&brokers),
    });
    let server = start(&served::config(&folder.path().join("files"), &levels, &json!({})));
    check(&server, |_| 1);
    wait_until("Redis is filled", || {
        level_versions(&server, LevelKind::Redis, &keys()) == Ok(vec![Some(1); KEYS as usize])
    });
}

/// A group may have committed less than the time of the files that Redis is filled from.
#[test]
fn redis_is_not_given_updates_that_are_older_than_its_files() {
    let setup = Setup::new();
    let cluster = RedisCluster::start();
    let levels = json!({
        "volatile_db": { "type": "redis", "address": cluster.nodes().join(",") },
        "persistent_db": setup.database("db"),
    });
    let config = setup.config(levels, &json!({}));
    setup.feed.publish(&[1, 2], 2);
    let server = start(&config);
    setup.feed.wait_for_newest(&server, &keys(), 1);
    wait_until_at_end(&server);
    drop(server);
    setup.feed.publish_at(&[2, 3], 3, FILES_MS + 2_000);
    setup.write_files(10, FILES_MS + 60_000);
    let server = start(&config);
    wait_until_at_end(&server);
    wait_until("Redis has all rows", || {
        level_versions(&server, LevelKind::Redis, &keys()) == Ok(vec![Some(10); KEYS as usize])
    });
    setup.feed.publish_at(&[5, 6], 11, FILES_MS + 61_000);
    let want = |key: i64| if key == 5 || key == 6 { 11 } else { 10 };
    wait_until("updates come", || {
        let want: Vec<_> = keys().iter().map(|key| Some(want(*key))).collect();
        level_versions(&server, LevelKind::Redis, &keys()) == Ok(want)
    });
    check(&server, want);
}

/// A server that starts with newer files never shows rows of older ones, whatever Redis has.
#[test]
fn rows_of_an_older_version_in_redis_are_not_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = RedisCluster::start();
    let files = folder.path().join("files");
    let check_levels = |persistent: Value, name: &str| {
        let config = |version: u32| {
            write_files(&files, &keys(), version);
            set_time(&files, FILES_MS + i64::from(version) * 1_000);
            let levels = json!({
                "volatile_db": { "type": "redis", "address": cluster.nodes().join(",") },
                "persistent_db": persistent,
            });
            served::config(&files, &levels, &json!({ "model": name }))
        };
        for version in 1..4 {
            let server = start(&config(version));
            for _ in 0..300 {
                check(&server, |_| version);
            }
            wait_until("Redis has this version", || {
                let found = level_versions(&server, LevelKind::Redis, &keys());
                found == Ok(vec![Some(version); KEYS as usize])
            });
        }
    };
    check_levels(json!({ "type": "embedded", "path": path(folder.path(), "db") }), "kept");
    check_levels(json!({ "type": "disabled" }), "alone");
}

#[test]
fn servers_of_two_versions_leave_redis_to_the_last_that_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = RedisCluster::start();
    let files = folder.path().join("files");
    let start_version = |version: u32| {
        write_files(&files, &keys(), version);
        set_time(&files, FILES_MS + i64::from(version) * 1_000);
        let levels = json!({
            "volatile_db": { "type": "redis", "address": cluster.nodes().join(",") },
            "persistent_db": {
                "type": "embedded", "path": path(folder.path(), &format!("db{version}"))
            },
        });
        start_on(&format!("host{version}"), &served::config(&files, &levels, &json!({})))
    };
    let in_redis = |server: &ParameterServer, version: u32| {
        let want = vec![Some(version); KEYS as usize];
        level_versions(server, LevelKind::Redis, &keys()) == Ok(want)
    };
    let is_suspended = |server: &ParameterServer| {
        table(server).levels().level(LevelKind::Redis).is_some_and(Level::is_suspended)
    };
    let older = start_version(1);
    wait_until("Redis has the first version", || in_redis(&older, 1) && !is_suspended(&older));
    let newer = start_version(2);
    wait_until("Redis has the second version", || {
        check(&newer, |_| 2);
        // It brings rows up all the while.
        versions(&older, &keys());
        in_redis(&newer, 2) && is_suspended(&older)
    });
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        check(&newer, |_| 2);
        check(&older, |_| 1);
        assert!(in_redis(&newer, 2), "nobody takes it away again");
    }
    drop(older);
    let again = start_version(1);
    wait_until("Redis has the first version again", || {
        check(&again, |_| 1);
        in_redis(&again, 1) && is_suspended(&newer)
    });
    check(&newer, |_| 2);
}

fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(name)
}
