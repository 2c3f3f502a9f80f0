//! What a level in Redis evicts, by every policy.

use std::thread;

use serde_json::json;
use terrace_embedding::{KeyKind, RedisStore, RowStore};
use terrace_testkit::{RedisCluster, RedisServer, wait_until};

use crate::redis_level::{database, found, hash, keys_of, put, spec, store};

const MARKS: &str = "hps_et{hps_et.m.t/p0}t";
const POLICIES: [&str; 3] = ["evict_random", "evict_oldest", "evict_least_used"];

/// One partition, which overflows at `margin`.
fn bounded(
    server: &RedisServer,
    kind: KeyKind,
    policy: &str,
    margin: u64,
    left: f64,
) -> RedisStore {
    let fields = json!({
        "num_partitions": 1,
        "overflow_margin": margin,
        "overflow_policy": policy,
        "overflow_resolution_target": left,
    });
    server.command(&["FLUSHALL"]);
    store(server, kind, fields)
}

/// Writes the mark of a key of 8 bytes.
fn set_mark(server: &RedisServer, key: i64, mark: &[u8]) {
    server.command(&[b"HSET", MARKS.as_bytes(), &key.to_le_bytes()[..], mark]);
}

fn mark_of(server: &RedisServer, key: i64) -> Option<Vec<u8>> {
    let field = key.to_le_bytes();
    hash(server, MARKS).into_iter().find(|(of, _)| *of == field).map(|(_, mark)| mark)
}

fn set_time(server: &RedisServer, key: i64, seconds: u64) {
    set_mark(server, key, &seconds.to_le_bytes());
}

#[test]
fn a_partition_overflows_exactly_to_its_target() {
    let server = RedisServer::start(&[]);
    for policy in POLICIES {
        for kind in [KeyKind::U32, KeyKind::I64] {
            for (margin, target, left) in
                [(10, 0.8, 8), (10, 0.55, 5), (1, 0.5, 0), (300, 0.999, 299)]
            {
                let store = bounded(&server, kind, policy, margin, target);
                put(&store, 0..margin as i64);
                assert_eq!(store.count(), Ok(margin), "not more than it may have");
                put(&store, 0..margin as i64);
                assert_eq!(store.count(), Ok(margin), "the same rows again");
                put(&store, [1_000]);
                let case = format!("{policy} {kind:?} {margin} {target}");
                assert_eq!(store.count(), Ok(left), "{case}");
                assert_eq!(keys_of(&store).len() as u64, left, "{case}");
                let marks = hash(&server, MARKS).len() as u64;
                assert_eq!(marks, if policy == "evict_random" { 0 } else { left }, "{case}");
                store.add_many(&[2_000, 2_001], &[2_000.0, 2_001.0]).expect("add");
                let many: Vec<i64> = (3_000..3_000 + margin as i64).collect();
                let rows: Vec<f32> = many.iter().map(|key| *key as f32).collect();
                store.add_many(&many, &rows).expect("add");
                assert!(store.count().expect("count") <= margin, "{case}");
            }
        }
    }
}

/// In batches smaller and larger than the partition.
#[test]
fn batches_of_any_size_never_evict_more_than_is_wanted() {
    let server = RedisServer::start(&[]);
    for policy in POLICIES {
        for batch in [1, 7, 1_000, 65_536] {
            server.command(&["FLUSHALL"]);
            let fields = json!({
                "num_partitions": 3,
                "max_batch_size": batch,
                "overflow_margin": 20,
                "overflow_policy": policy,
                "overflow_resolution_target": 0.5,
            });
            let store = store(&server, KeyKind::U32, fields);
            put(&store, 0..120);
            for partition in 0..3 {
                let name = format!("hps_et{{hps_et.m.t/p{partition}}}v");
                let rows = server.command(&["HLEN", &name]).int();
                assert!((10..=20).contains(&rows), "{policy} {batch}: {rows}");
            }
            keys_of(&store);
        }
    }
}

#[test]
fn chance_chooses_from_all_rows() {
    let server = RedisServer::start(&[]);
    let store = bounded(&server, KeyKind::I64, "evict_random", 200, 0.5);
    put(&store, 0..201);
    let left = keys_of(&store);
    assert_eq!(left.len(), 100);
    // That all of them are of one half happens once in 10^30.
    assert!(left.iter().any(|key| *key < 100) && left.iter().any(|key| *key >= 100), "{left:?}");
}

#[test]
fn the_oldest_leave_and_a_look_up_makes_young() {
    let server = RedisServer::start(&[]);
    let store = bounded(&server, KeyKind::I64, "evict_oldest", 10, 0.5);
    put(&store, 0..10);
    (0..10).for_each(|key| set_time(&server, key, 100 + key as u64));
    assert_eq!(found(&store, &[0, 3, 77], 1), [true, true, false]);
    let is_young = |key| mark_of(&server, key).is_some_and(|mark| mark[4] == 0 && mark[3] > 0);
    wait_until("uses are marked", || is_young(0) && is_young(3));
    assert_eq!(store.lost_uses(), 0);
    put(&store, [10]);
    assert_eq!(keys_of(&store), [0, 3, 8, 9, 10]);
    assert_eq!(hash(&server, MARKS).len(), 5);
}

#[test]
fn the_least_used_leave_and_old_counts_fade() {
    let server = RedisServer::start(&[]);
    let store = bounded(&server, KeyKind::I64, "evict_least_used", 4, 0.75);
    put(&store, 0..4);
    for (key, uses) in [(0, 8), (1, 4), (2, 5)] {
        (0..uses).for_each(|_| drop(found(&store, &[key], 1)));
    }
    let count_of = |key| mark_of(&server, key).map(|mark| String::from_utf8(mark).expect("text"));
    wait_until("uses are counted", || {
        [0, 1, 2].map(count_of) == ["9", "5", "6"].map(|it| Some(it.to_owned()))
    });
    put(&store, [4]);
    assert_eq!(keys_of(&store), [0, 1, 2]);
    assert_eq!([0, 1, 2].map(count_of), ["4", "2", "3"].map(|it| Some(it.to_owned())));
}

/// Rows that somebody else wrote, or that are from before the policy was set.
#[test]
fn rows_without_a_mark_leave_first() {
    let server = RedisServer::start(&[]);
    for policy in ["evict_oldest", "evict_least_used"] {
        drop(bounded(&server, KeyKind::I64, "evict_random", 1_000, 0.5));
        put(&store(&server, KeyKind::I64, json!({ "num_partitions": 1 })), 0..6);
        let fields = json!({
            "num_partitions": 1,
            "overflow_margin": 10,
            "overflow_policy": policy,
            "overflow_resolution_target": 0.5,
        });
        let store = store(&server, KeyKind::I64, fields);
        put(&store, 6..11);
        assert_eq!(keys_of(&store), [6, 7, 8, 9, 10], "{policy}");
    }
}

#[test]
fn marks_without_a_row_do_not_count() {
    let server = RedisServer::start(&[]);
    let store = bounded(&server, KeyKind::I64, "evict_oldest", 10, 0.5);
    put(&store, 0..10);
    (0..10).for_each(|key| set_time(&server, key, 100 + key as u64));
    (50..70).for_each(|key| set_time(&server, key, key as u64));
    put(&store, [10]);
    assert_eq!(keys_of(&store), [6, 7, 8, 9, 10]);
}

/// A time is no count, and a count no time: such rows are as good as not marked.
#[test]
fn marks_of_another_policy_are_replaced() {
    let server = RedisServer::start(&[]);
    let of_time = bounded(&server, KeyKind::I64, "evict_oldest", 4, 0.5);
    put(&of_time, 0..4);
    let fields = json!({
        "num_partitions": 1,
        "overflow_margin": 4,
        "overflow_policy": "evict_least_used",
        "overflow_resolution_target": 0.75,
    });
    let of_count = store(&server, KeyKind::I64, fields);
    put(&of_count, [1]);
    assert_eq!(mark_of(&server, 1), Some(b"1".to_vec()));
    assert_eq!(found(&of_count, &[3], 1), [true]);
    wait_until("a use is counted", || mark_of(&server, 3) == Some(b"1".to_vec()));
    put(&of_count, [9]);
    assert_eq!(keys_of(&of_count), [1, 3, 9]);
}

/// Two of them do not add up: each stops where the target is reached.
#[test]
fn servers_that_evict_at_the_same_time_do_not_empty_a_partition() {
    let server = RedisServer::start(&[]);
    for policy in POLICIES {
        server.command(&["FLUSHALL"]);
        let fields = json!({
            "num_partitions": 1,
            "max_batch_size": 10,
            "overflow_margin": 200,
            "overflow_policy": policy,
            "overflow_resolution_target": 0.8,
        });
        let stores = [(); 2].map(|()| store(&server, KeyKind::I64, fields.clone()));
        thread::scope(|scope| {
            for (number, store) in stores.iter().enumerate() {
                scope.spawn(move || {
                    for first in (0..500).step_by(100).map(|key| number as i64 * 1_000 + key) {
                        put(store, first..first + 100);
                    }
                });
            }
        });
        let rows = stores[0].count().expect("count");
        // One batch of the other may come on top of what was wanted.
        assert!((150..=200).contains(&rows), "{policy}: {rows}");
        keys_of(&stores[0]);
    }
}

/// Marks of the older names are on another node than their rows.
#[test]
fn a_cluster_overflows_as_one_server_does() {
    let cluster = RedisCluster::start();
    for policy in POLICIES {
        for style in [terrace_embedding::TagStyle::Hps, terrace_embedding::TagStyle::Hctr] {
            let fields = json!({
                "num_partitions": 4,
                "overflow_margin": 30,
                "overflow_policy": policy,
                "overflow_resolution_target": 0.5,
            });
            let tag = style.table_tag(policy, "t");
            let spec = terrace_embedding::TableSpec { tag, ..spec("t", KeyKind::U32, 1) };
            let store = database(&cluster.nodes(), fields).table(&spec);
            put(&store, 0..400);
            assert_eq!(store.count(), Ok(60), "{policy}");
            assert_eq!(keys_of(&store).len(), 60);
        }
    }
}
