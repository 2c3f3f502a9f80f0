//! What is taken and does not do what it seems to.

use serde_json::{Value, json};
use terrace_embedding::{KeyKind, PsConfig};

use crate::fixtures::{around, changed, from_value};

fn check(changes: &[(&str, Value)], want: &[&str]) {
    let value = changed(changes);
    let (_, warnings) = from_value(&value).unwrap_or_else(|error| panic!("{value}: {error}"));
    assert_eq!(warnings, want, "{value}");
}

#[test]
fn keys_that_nothing_reads_are_named() {
    check(
        &[("models.0.gpucacheperr", json!(0.5))],
        &["models[0].gpucacheperr: not known; did you mean gpucacheper?"],
    );
    check(&[("volatiledb", json!({}))], &["volatiledb: not known; did you mean volatile_db?"]);
    check(&[("// note", json!("x"))], &["\"// note\": not known"]);
    check(
        &[
            ("models.0.use_context_stream", json!(true)),
            ("models.0.thread_pool_size", json!(16)),
            ("volatile_db", json!({ "type": "hash_map", "max_batch_size": 5, "algorithm": "stl" })),
        ],
        &["volatile_db.algorithm, volatile_db.max_batch_size, models[].use_context_stream, \
           models[].thread_pool_size: accepted, has no effect here"],
    );
    check(
        &[("volatile_db", json!({ "type": "multi_process_map", "shared_memory_size": 1 }))],
        &["volatile_db.type: each process has a map of its own here, and shared_memory_* has no \
           effect; let one server serve all models, or share rows in redis_cluster"],
    );
    check(
        &[(
            "volatile_db",
            json!({ "type": "redis", "tls_client_key": "k", "max_batch_size": 300_000 }),
        )],
        &[
            "volatile_db.max_batch_size: some builds of Redis fail on more than 262143 rows",
            "volatile_db.tls_client_key: has no effect while enable_tls is false",
        ],
    );
    check(
        &[("volatile_db", json!({}))],
        &["levels: none is enabled, so every key takes its table's default value"],
    );
}

#[test]
fn values_that_lead_elsewhere_are_named() {
    check(
        &[("persistent_db", json!({ "type": "rocks" }))],
        &["persistent_db.path: not given, so rows are kept in /tmp/rocksdb, which may not last"],
    );
    check(
        &[("models.0.refresh_interval", json!(5))],
        &["models[0].cache_refresh_percentage_per_iteration: is 0, so the cache is never \
           refreshed; 0.1 is a good start"],
    );
    check(
        &[("models.0.fp8_quant", json!("true"))],
        &["models[0].fp8_quant: has no effect, rows stay f32"],
    );
    check(
        &[
            ("update_source", json!({ "type": "kafka" })),
            ("volatile_db", json!({ "type": "map", "update_filters": ["^other_.+$"] })),
        ],
        &["update_filters: those of the memory level match no model (^other_.+$), so it gets no \
           updates; .+ matches all"],
    );
    check(
        &[("fuse_embedding_table", json!(true))],
        &["models[0].embedding_vecsize_per_table: not given, so tables are not fused"],
    );
    check(
        &[
            ("fuse_embedding_table", json!(true)),
            ("models.0.embedding_vecsize_per_table", json!([4, 4])),
            ("models.0.default_value_for_each_table", json!([1, 0.5])),
        ],
        &["models[0].default_value_for_each_table: the tables of fused_embedding0 have different \
           values; 0.5 is used for all of them"],
    );
}

#[test]
fn a_key_given_twice_is_a_warning_and_the_last_one_counts() {
    let json = br#"{"supportlonglong": false, "supportlonglong": true,
        "models": [{"model": "m", "sparse_files": ["a"], "model": "n"}]}"#;
    let (config, warnings) = PsConfig::from_json(json, &around()).unwrap();
    assert_eq!((config.key_kind, config.models[0].name.as_str()), (KeyKind::I64, "n"));
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    let wanted = ["supportlonglong", "models[0].model"];
    assert_eq!(warnings, wanted.map(|path| format!("{path}: given twice; the last one counts")));
}
