//! Whole servers: what is loaded, found, shared and said, with the levels that a configuration has.

use std::sync::Arc;

use serde_json::{Value, json};
use terrace_embedding::{CacheHolds, LevelKind, MissingRows, StartError};

use crate::served::{
    DEFAULT, DIM, config, row, start, start_saying, table, try_start, versions, write_files,
};

fn keys(count: i64) -> Vec<i64> {
    (0..count).map(|key| key * 7 - 50).collect()
}

#[test]
fn every_combination_of_levels_gives_the_rows_of_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let (files, keys) = (folder.path().join("files"), keys(500));
    write_files(&files, &keys, 3);
    let mut number = 0;
    for ram in [json!(null), json!({ "type": "hash_map" })] {
        for store in ["disabled", "rocksdb", "embedded"] {
            for cache in [json!({}), json!({ "gpucache": true, "gpucacheper": 0.1 })] {
                number += 1;
                let persistent =
                    json!({ "type": store, "path": folder.path().join(number.to_string()) });
                let levels = json!({ "volatile_db": ram, "persistent_db": persistent });
                let config = config(&files, &levels, &cache);
                for restart in 0..2 {
                    let server = start(&config);
                    let has_rows = !ram.is_null() || store != "disabled";
                    let want = vec![has_rows.then_some(3); keys.len()];
                    for _ in 0..2 {
                        assert_eq!(versions(&server, &keys), want, "{levels} {restart}");
                    }
                    assert_eq!(versions(&server, &[9_999_999, keys[0]]), [None, want[0]]);
                }
            }
        }
    }
}

#[test]
fn a_cache_of_all_rows_never_misses_one() {
    let folder = tempfile::tempdir().unwrap();
    let keys = keys(5000);
    write_files(folder.path(), &keys, 1);
    for cache in [
        json!({ "gpucache": true, "gpucacheper": 1.0 }),
        json!({ "gpucache": true, "embedding_cache_type": "static" }),
        json!({ "gpucache": true, "embedding_cache_type": "uvm", "gpucacheper": 0.5 }),
    ] {
        let server = start(&config(folder.path(), &json!({}), &cache));
        assert!(versions(&server, &keys) == vec![Some(1); keys.len()], "{cache}");
        let counters = table(&server).counters();
        assert_eq!((counters.hits, counters.unique), (5000, 5000), "{cache}");
        assert_eq!(table(&server).caches()[0].holds(), CacheHolds::All);
    }
}

#[test]
fn models_with_the_same_files_share_a_table_and_its_cache() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
    write_files(&one, &keys(100), 1);
    write_files(&other, &keys(100), 2);
    let model = |name: &str, share: f64| {
        json!({
            "model": name, "sparse_files": [one, other],
            "embedding_table_names": ["a", "b"], "default_value_for_each_table": [DEFAULT],
            "deployed_device_list": [0], "gpucacheper": share,
        })
    };
    let models = json!({ "models": [model("x", 0.5), model("y", 0.5), model("z", 0.7)] });
    let server = start(&config(&one, &models, &json!({})));
    let [xa, ya, za] = ["x.a", "y.a", "z.a"].map(|name| server.table(name).unwrap());
    assert!(Arc::ptr_eq(xa, ya) && !Arc::ptr_eq(xa, za));
    assert_eq!((server.tables().len(), server.names().count()), (4, 6));
    assert!(server.table("a").is_none(), "two tables have this name");
    assert!(server.table("x.c").is_none() && server.table("").is_none());
}

#[test]
fn a_level_in_memory_has_what_it_has_room_for() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    write_files(&files, &keys(1000), 1);
    let count = |fill: Value| {
        let mut ram = json!({ "type": "hash_map", "num_partitions": 2 });
        ram.as_object_mut().unwrap().extend(fill.as_object().unwrap().clone());
        let server = start(&config(&files, &json!({ "volatile_db": ram }), &json!({})));
        let level = table(&server).levels().level(LevelKind::Ram).unwrap();
        level.store().count().unwrap()
    };
    assert_eq!(count(json!({})), 1000);
    assert_eq!(count(json!({ "overflow_margin": 900 })), 1000);
    // Half of 800 rows; partitions need not be equal, so none overflows.
    assert_eq!(count(json!({ "overflow_margin": 400, "initial_cache_rate": 0.5 })), 400);
    assert_eq!(count(json!({ "initialize_after_startup": false })), 0);
}

#[test]
fn files_that_are_gone_are_missed_only_where_no_database_has_their_rows() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    let levels = json!({
        "volatile_db": null,
        "persistent_db": { "type": "embedded", "path": folder.path().join("db") },
    });
    let config = config(&files, &levels, &json!({}));
    let error = try_start(&config).err().unwrap();
    assert!(matches!(error, StartError::NoFiles { .. }), "{error}");
    assert!(error.to_string().contains("hps_et.m.t"), "{error}");
    write_files(&files, &keys(10), 1);
    drop(start(&config));
    std::fs::remove_dir_all(&files).unwrap();
    let mut said = Vec::new();
    let server = start_saying(&config, &mut |text| said.push(text)).unwrap();
    assert_eq!(versions(&server, &keys(10)), vec![Some(1); 10]);
    assert!(said.len() == 1 && said[0].contains("what the database has is served"), "{said:?}");
}

#[test]
fn placement_puts_tables_where_they_fit_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    write_files(&files, &keys(100), 1);
    let auto = json!({
        "placement": "auto",
        "persistent_db": { "type": "embedded", "path": folder.path().join("db") },
    });
    let mut said = Vec::new();
    let with_cache = json!({ "gpucache": true });
    let server =
        start_saying(&config(&files, &auto, &with_cache), &mut |text| said.push(text)).unwrap();
    let bytes = 100 * DIM * 4;
    assert_eq!(said, [format!("placement of hps_et.m.t: all {bytes} bytes in the device")]);
    assert_eq!(table(&server).caches()[0].holds(), CacheHolds::All);
    assert!(table(&server).levels().level(LevelKind::Ram).is_none());
    let mut found = vec![0.0; DIM];
    server.look_up(table(&server), &[-50], MissingRows::AsConfigured, &mut found).unwrap();
    assert_eq!(found, row(-50, 1));
}
