//! What HugeCTR's parameter server was known to get wrong, and the test that holds it here.
//!
//! | pitfall | test |
//! |---|---|
//! | a hit rate at the threshold | `lookups::at_the_threshold_nobody_waits_and_below_it_all_do` |
//! | empty slots of a request | pooling's: a look-up knows keys; one without any is below |
//! | no key of a batch is known | `a_batch_without_a_known_key_gets_defaults_and_caches_none` |
//! | the largest key is reserved | `the_ends_of_the_keys_are_keys_like_any_other` |
//! | `num_partitions` 1 | `one_partition_is_enough` |
//! | a partition smaller than `max_batch_size` that overflows | |
//! | … in Redis | `redis_overflow::batches_of_any_size_never_evict_more_than_is_wanted` |
//! | … in memory | `a_batch_larger_than_a_partition_leaves_what_it_may_have` in `ram_store` |
//! | `evict_random` in Redis evicts nothing | `redis_overflow::chance_chooses_from_all_rows` |
//! | the default filter matches no model | `the_default_filter_takes_updates_of_every_model` |
//! | duplicate keys in a batch | `lookups::rows_come_from_the_first_level_that_has_them`, |
//! | | `server_histories`, `a_batch_of_one_key_is_one_key` |
//! | a Redis node that is down stops RocksDB | `server_faults`, |
//! | | `lookups::levels_that_fail_or_hang_are_passed_by` |
//! | a refresh while rows are looked up | `look_ups_and_updates_go_on_while_caches_are_refreshed` |
//! | `refresh_interval` 0.5 is cut to 0 | `half_a_second_is_an_interval`, `ps_json::a_refresh_…` |
//! | numbers as strings | `older_forms::two_levels_are_read_with_strings_for_numbers` |
//! | `peristent_db` | `older_forms::memory_is_on_by_default_beside_the_other_levels` |
//! | `;` or `,` between addresses | `either_separator_leads_to_the_cluster` |

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};
use terrace_embedding::{LevelKind, LookupStats, MissingRows, ParameterServer, UpdateScope};
use terrace_testkit::{RedisCluster, RedisServer, wait_until};

use crate::served::{DIM, config, rows, start, table, versions, write_files};

const CACHES: [&str; 3] = ["dynamic", "static", "uvm"];

fn keys(count: i64) -> Vec<i64> {
    (0..count).collect()
}

fn cache(kind: &str) -> Value {
    json!({ "gpucache": true, "gpucacheper": 0.5, "embedding_cache_type": kind })
}

fn look_up(server: &ParameterServer, keys: &[i64]) -> LookupStats {
    server
        .look_up(table(server), keys, MissingRows::AsConfigured, &mut vec![0.0; keys.len() * DIM])
        .expect("keys")
}

#[test]
fn a_batch_without_a_known_key_gets_defaults_and_caches_none() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path(), &keys(300), 1);
    for kind in CACHES {
        let server = start(&config(folder.path(), &json!({}), &cache(kind)));
        let unknown: Vec<i64> = (1_000..1_500).collect();
        for _ in 0..2 {
            assert_eq!(versions(&server, &unknown), vec![None; 500], "{kind}");
            let stats = look_up(&server, &unknown);
            assert_eq!((stats.hits, stats.defaults, stats.unanswered), (0, 500, 0), "{kind}");
        }
        assert_eq!(look_up(&server, &[]), LookupStats::default());
        assert_eq!(versions(&server, &keys(300)), vec![Some(1); 300], "{kind}");
    }
}

#[test]
fn the_ends_of_the_keys_are_keys_like_any_other() {
    let check = |is_wide: bool, ends: &[i64]| {
        let folder = tempfile::tempdir().unwrap();
        let files = folder.path().join("files");
        let mut all = keys(200);
        all.extend(ends);
        write_files(&files, &all, 1);
        for kind in CACHES {
            let database = json!({ "type": "embedded", "path": folder.path().join(kind) });
            let levels = json!({ "supportlonglong": is_wide, "persistent_db": database });
            let server = start(&config(&files, &levels, &cache(kind)));
            assert_eq!(versions(&server, &all), vec![Some(1); all.len()], "{kind}");
            assert_eq!(versions(&server, ends), vec![Some(1); ends.len()], "{kind}");
            table(&server).update(UpdateScope::Own, ends, &rows(ends, 2)).unwrap();
            assert_eq!(versions(&server, ends), vec![Some(2); ends.len()], "{kind}");
            assert_eq!(versions(&server, &keys(200)), vec![Some(1); 200], "{kind}");
        }
    };
    check(true, &[i64::MAX, i64::MIN, -1, i64::MAX - 1]);
    check(false, &[u32::MAX.into(), i64::from(u32::MAX) - 1]);
}

#[test]
fn one_partition_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(&[]);
    write_files(folder.path(), &keys(500), 1);
    let ram = json!({ "type": "hash_map", "num_partitions": 1 });
    let redis = json!({
        "type": "redis", "address": server.address(), "num_partitions": 1, "max_batch_size": 7,
    });
    for level in [ram, redis] {
        let server = start(&config(folder.path(), &json!({ "volatile_db": level }), &json!({})));
        assert_eq!(versions(&server, &keys(500)), vec![Some(1); 500], "{level}");
        for scope in [UpdateScope::Own, UpdateScope::Shared] {
            table(&server).update(scope, &keys(100), &rows(&keys(100), 2)).unwrap();
        }
        assert_eq!(versions(&server, &[99, 100]), [Some(2), Some(1)], "{level}");
    }
}

#[test]
fn the_default_filter_takes_updates_of_every_model() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path(), &keys(10), 1);
    let check = |filters: Value, want: bool| {
        let ram = json!({ "type": "hash_map", "update_filters": filters });
        let server = start(&config(folder.path(), &json!({ "volatile_db": ram }), &json!({})));
        let level = table(&server).levels().level(LevelKind::Ram).unwrap();
        assert_eq!(level.takes_updates(), want, "{filters}");
        table(&server).update(UpdateScope::Own, &[1], &rows(&[1], 2)).unwrap();
        assert_eq!(versions(&server, &[1]), [Some(if want { 2 } else { 1 })], "{filters}");
    };
    check(json!(null), true);
    check(json!(["^hps_.+$"]), true);
    check(json!([".+"]), true);
    check(json!(["dcn"]), false);
}

#[test]
fn a_batch_of_one_key_is_one_key() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path(), &keys(300), 1);
    let server = start(&config(folder.path(), &json!({}), &cache("dynamic")));
    let batch = [vec![7; 5_000], vec![999_999; 5_000], vec![8]].concat();
    let stats = look_up(&server, &batch);
    assert_eq!((stats.keys, stats.unique, stats.defaults), (10_001, 3, 1));
    let found = versions(&server, &batch);
    assert!(found[..5_000].iter().all(|it| *it == Some(1)));
    assert!(found[5_000..10_000].iter().all(Option::is_none));
    assert_eq!(found[10_000], Some(1));
}

/// A row goes up and never down, and is never mixed.
#[test]
fn look_ups_and_updates_go_on_while_caches_are_refreshed() {
    let folder = tempfile::tempdir().unwrap();
    let (files, all, is_over) = (folder.path().join("files"), keys(2_000), AtomicBool::new(false));
    write_files(&files, &all, 1);
    let database = json!({ "type": "embedded", "path": folder.path().join("db") });
    let levels = json!({ "volatile_db": null, "persistent_db": database });
    let server = start(&config(&files, &levels, &cache("dynamic")));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                server.refresh();
                thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        scope.spawn(|| {
            for version in 2..40 {
                for keys in all.chunks(500) {
                    table(&server).update(UpdateScope::Own, keys, &rows(keys, version)).unwrap();
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mut last = vec![Some(0); all.len()];
        while !is_over.load(Ordering::Relaxed) {
            let found = versions(&server, &all);
            assert!(found.iter().zip(&last).all(|(found, last)| found >= last), "a row went back");
            last = found;
        }
    });
    assert_eq!(versions(&server, &all), vec![Some(39); all.len()]);
    wait_until("caches were walked", || server.refreshes() > 0);
}

#[test]
fn half_a_second_is_an_interval() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path(), &keys(100), 1);
    let mut model = cache("static");
    model["refresh_interval"] = json!(0.5);
    model["cache_refresh_percentage_per_iteration"] = json!(0.1);
    let server = start(&config(folder.path(), &json!({}), &model));
    let store = table(&server).levels().level(LevelKind::Ram).unwrap().store();
    for version in 2..4 {
        // Past the hot cache, which learns of it by looking again.
        store.put_many(&keys(100), &rows(&keys(100), version)).unwrap();
        wait_until("the hot cache has looked again", || {
            versions(&server, &keys(100)) == vec![Some(version); 100]
        });
    }
}

#[test]
fn either_separator_leads_to_the_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = RedisCluster::start();
    write_files(folder.path(), &keys(50), 1);
    for (number, separator) in [",", ";", " ; "].into_iter().enumerate() {
        // The first of them is nobody.
        let nodes = [vec!["127.0.0.1:1".to_owned()], cluster.nodes()].concat().join(separator);
        let redis = json!({ "type": "redis_cluster", "address": nodes });
        let model = json!({ "model": format!("m{number}") });
        let server = start(&config(folder.path(), &json!({ "volatile_db": redis }), &model));
        assert_eq!(versions(&server, &keys(50)), vec![Some(1); 50], "{nodes}");
    }
}
