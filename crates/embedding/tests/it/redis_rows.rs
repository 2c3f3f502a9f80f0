//! Rows in Redis: histories, exact names and bytes, and several writers at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};
use terrace_embedding::{
    KeyKind, PartitionRule, RedisDatabase, RowStore, TableSpec, TagStyle, cluster_slot,
};
use terrace_testkit::{RedisCluster, RedisServer, golden_set};

use crate::redis_level::{LONG, config, database, found, hash, put, server_of, spec, store};
use crate::store_history::StoreHistory;

/// Over all ways in which keys are written, cut into partitions and put into batches.
fn check_histories(nodes: &[String], steps: usize) {
    for (seed, kind) in [(1, KeyKind::I64), (2, KeyKind::U32)] {
        for (number, (dim, style, rule, fields)) in [
            (1, TagStyle::Hps, PartitionRule::Mix, json!({ "num_partitions": 1 })),
            (5, TagStyle::Hctr, PartitionRule::Modulo, json!({ "max_batch_size": 3 })),
            (16, TagStyle::Hps, PartitionRule::Mix, json!({ "overflow_margin": 1000 })),
            (
                3,
                TagStyle::Hctr,
                PartitionRule::Mix,
                json!({ "overflow_margin": 1000, "overflow_policy": "evict_least_used" }),
            ),
            (
                2,
                TagStyle::Hps,
                PartitionRule::Mix,
                json!({ "overflow_margin": 1000, "overflow_policy": "evict_oldest" }),
            ),
        ]
        .into_iter()
        .enumerate()
        {
            let tag = style.table_tag("history", &format!("t{seed}_{number}"));
            let spec = TableSpec { tag, key_kind: kind, dim, default_value: 0.0 };
            let database = RedisDatabase::connect(&config(nodes, fields), rule, LONG);
            let store = database.expect("a database").table(&spec);
            let mut history = StoreHistory::new(seed, dim, kind == KeyKind::I64);
            history.run(&store, steps);
        }
    }
}

#[test]
fn histories_in_a_cluster_agree_with_a_map_and_names_and_bytes_are_those_of_the_reference() {
    let cluster = RedisCluster::start();
    check_histories(&cluster.nodes(), 60);
    for server in &cluster.servers {
        assert!(server.command(&["DBSIZE"]).int() > 0, "a node without a partition");
        server.command(&["FLUSHALL"]);
    }
    check_names(&cluster);
    check_older_names(&cluster);
}

#[test]
fn histories_in_one_server_agree_with_a_map() {
    let server = RedisServer::start(&[]);
    check_histories(&[server.address()], 100);
}

fn vectors() -> Value {
    let path = golden_set("ctr").join("hps_vectors.json");
    serde_json::from_slice(&std::fs::read(path).expect("golden data")).expect("its JSON")
}

fn numbers(values: &Value) -> Vec<i64> {
    let values = values.as_array().expect("numbers").iter();
    values.map(|it| it.as_i64().or_else(|| it.as_str()?.parse().ok()).expect("a number")).collect()
}

/// Each key of the reference is in its hash, on the node of its slot, with its bytes.
fn check_names(cluster: &RedisCluster) {
    let vectors = vectors();
    let fields = json!({ "overflow_margin": 1000, "overflow_policy": "evict_oldest" });
    let database = database(&cluster.nodes(), fields);
    let tag = TagStyle::Hps.table_tag("dcn", "sparse_embedding1");
    let spec = TableSpec { tag, key_kind: KeyKind::I64, dim: 4, default_value: 0.0 };
    let keys = [numbers(&vectors["keys"]), numbers(&vectors["negative_keys"])].concat();
    let rows: Vec<f32> = (0..keys.len() * 4).map(|number| number as f32 - 7.5).collect();
    database.table(&spec).put_many(&keys, &rows).expect("put");
    let partitions = [
        numbers(&vectors["partition_by_mix"]["8"]),
        numbers(&vectors["negative_partition_by_mix"]["8"]),
    ]
    .concat();
    for ((key, partition), row) in keys.iter().zip(partitions).zip(rows.chunks(4)) {
        let names = &vectors["redis"][partition as usize];
        let server = server_of(cluster, names["slot"].as_u64().expect("a slot") as u16);
        let bytes: Vec<u8> = row.iter().flat_map(|number| number.to_le_bytes()).collect();
        let field = key.to_le_bytes().to_vec();
        let of = |name: &str| hash(server, names[name].as_str().expect("a name"));
        assert!(of("value_key").contains(&(field.clone(), bytes)), "key {key}");
        let marks = of("meta_key");
        let mark = marks.iter().find(|(of, _)| *of == field).map(|(_, mark)| mark.len());
        assert_eq!(mark, Some(8), "the time of key {key}");
    }
}

/// Those of release 3.3, with its rule, 4 bytes for a key and a decimal count.
fn check_older_names(cluster: &RedisCluster) {
    let vectors = vectors();
    let fields = json!({ "overflow_margin": 9, "overflow_policy": "evict_least_used" });
    let config = config(&cluster.nodes(), fields);
    let database =
        RedisDatabase::connect(&config, PartitionRule::Modulo, LONG).expect("a database");
    let tag = TagStyle::Hctr.table_tag("dcn", "t");
    let spec = TableSpec { tag, key_kind: KeyKind::U32, dim: 1, default_value: 0.0 };
    let store = database.table(&spec);
    let is_narrow = |(key, _): &(i64, i64)| u32::try_from(*key).is_ok();
    let keys = numbers(&vectors["keys"]).into_iter();
    let keys = keys.zip(numbers(&vectors["partition_v33"]["8"])).filter(is_narrow);
    for (key, partition) in keys {
        put(&store, [key]);
        put(&store, [key]);
        let name = |end: char| format!("hctr_et.dcn.t/p{partition}/{end}");
        let field = (key as u32).to_le_bytes().to_vec();
        let hash_of = |name: String| hash(server_of(cluster, cluster_slot(&name)), &name);
        assert!(hash_of(name('v')).contains(&(field.clone(), (key as f32).to_le_bytes().to_vec())));
        assert!(hash_of(name('t')).contains(&(field, b"2".to_vec())), "key {key}");
    }
}

#[test]
fn a_damaged_row_is_an_error_that_names_it_and_never_a_row() {
    let server = RedisServer::start(&[]);
    let store = store(&server, KeyKind::U32, json!({ "num_partitions": 1 }));
    put(&store, [1, 2, 3]);
    let name = "hps_et{hps_et.m.t/p0}v";
    for length in [0, 3, 5, 8] {
        server.command(&[name_bytes("HSET"), name.into(), vec![2, 0, 0, 0], vec![1; length]]);
        let (mut rows, mut found) = ([-1.0; 3], [false; 3]);
        let error = store.get_many(&[1, 2, 3], &mut rows, &mut found).expect_err("damaged");
        let text = error.to_string();
        assert_eq!(error.kind(), "protocol", "{text}");
        for word in ["key 2", &format!("{length} bytes"), "has 4", "hps_et.m.t"] {
            assert!(text.contains(word), "{text}");
        }
        assert!(!found[1] && rows[1] == -1.0, "{rows:?} {found:?}");
        assert!(found[0] && rows[0] == 1.0, "{rows:?} {found:?}");
        store.scan(10, &mut |_, _| Ok(())).expect_err("damaged");
    }
    put(&store, [2]);
    assert_eq!(found(&store, &[1, 2, 3], 1), [true; 3]);
    server.command(&["SET", name, "x"]);
    let error = store.get_many(&[1], &mut [0.0], &mut [false]).expect_err("no hash");
    assert!(error.to_string().contains("something else is stored"), "{error}");
}

fn name_bytes(name: &str) -> Vec<u8> {
    name.as_bytes().to_vec()
}

#[test]
fn keys_that_do_not_fit_are_not_there_and_cannot_be_put() {
    let server = RedisServer::start(&[]);
    let store = store(&server, KeyKind::U32, json!({}));
    put(&store, [0, 1]);
    let wide = [1 << 32, -1, (1 << 32) + 1];
    assert_eq!(found(&store, &wide, 1), [false; 3]);
    store.remove_many(&wide).expect("nothing to remove");
    for key in wide {
        let error = store.put_many(&[0, key], &[5.0, 5.0]).expect_err("it does not fit");
        assert!(error.to_string().contains("supportlonglong"), "{error}");
        store.add_many(&[key], &[5.0]).expect_err("it does not fit");
    }
    assert_eq!(crate::redis_level::keys_of(&store), [0, 1]);
}

/// Rows that stay are given exactly once, whatever comes and goes beside them.
#[test]
fn a_scan_under_writes_gives_each_key_once() {
    let server = RedisServer::start(&[]);
    let (store, is_over) =
        (store(&server, KeyKind::I64, json!({ "num_partitions": 2 })), AtomicBool::new(false));
    put(&store, 0..2_000);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Hashes grow and shrink, so that a scan meets them in all their sizes.
            for round in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let keys: Vec<i64> = (10_000..10_000 + (round % 4) * 3_000).collect();
                put(&store, keys.iter().copied());
                store.remove_many(&keys).expect("remove");
            }
        });
        for _ in 0..20 {
            let mut keys = crate::redis_level::keys_of(&store);
            let all = keys.len();
            keys.dedup();
            assert_eq!(keys.len(), all, "a key came twice");
            assert!((0..2_000).all(|key| keys.binary_search(&key).is_ok()), "a key is missing");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_row_that_is_added_never_takes_the_place_of_one_that_was_put() {
    let server = RedisServer::start(&[]);
    let store = store(&server, KeyKind::I64, json!({ "max_batch_size": 50 }));
    let keys: Vec<i64> = (0..500).collect();
    for _ in 0..20 {
        thread::scope(|scope| {
            scope.spawn(|| store.put_many(&keys, &[1.0; 500]).expect("put"));
            scope.spawn(|| store.add_many(&keys, &[2.0; 500]).expect("add"));
        });
        let (mut rows, mut found) = (vec![0.0; 500], vec![false; 500]);
        store.get_many(&keys, &mut rows, &mut found).expect("get");
        assert!(found.iter().all(|found| *found) && rows.iter().all(|row| *row == 1.0));
        store.remove_many(&keys).expect("remove");
    }
}

/// Whatever is written beside a look-up, a row is all of one version.
#[test]
fn a_row_is_never_half_written() {
    const DIM: usize = 64;
    let server = RedisServer::start(&[]);
    let store = database(&[server.address()], json!({})).table(&spec("wide", KeyKind::I64, DIM));
    let (keys, is_over) = ((0..200).collect::<Vec<i64>>(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            for version in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let rows = vec![version as f32; keys.len() * DIM];
                store.put_many(&keys, &rows).expect("put");
            }
        });
        for _ in 0..100 {
            let (mut rows, mut found) = (vec![0.0; keys.len() * DIM], vec![false; keys.len()]);
            store.get_many(&keys, &mut rows, &mut found).expect("get");
            for row in rows.chunks(DIM) {
                assert!(row.iter().all(|number| *number == row[0]), "{row:?}");
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
