//! Values that are refused, each with its path, what was found and what is allowed.

use serde_json::{Value, json};
use terrace_embedding::PsConfig;

use crate::fixtures::{around, changed, from_value};

fn check(path: &str, value: Value, want: &str) {
    check_all(&[(path, value)], &[want]);
}

fn check_all(changes: &[(&str, Value)], want: &[&str]) {
    let value = changed(changes);
    match from_value(&value) {
        Ok(_) => panic!("{value} was taken"),
        Err(error) => assert_eq!(error.to_string(), want.join("\n"), "{value}"),
    }
}

#[test]
fn wrong_values_beside_the_models_are_refused() {
    let wanted = "supportlonglong: not given, needed: true for keys of 64 bits, false for keys of \
                  32";
    check("supportlonglong", json!(null), wanted);
    let wanted = "supportlonglong: found \"yes\", allowed: true or false";
    check("supportlonglong", json!("yes"), wanted);
    check("models", json!(null), "models: not given, needed: a list of at least one model");
    check("models", json!([]), "models: found a list of 0, allowed: at least one model");
    check("models", json!({}), "models: found an object, allowed: a list");
    check("models", json!([7]), "models[0]: found 7, allowed: an object");
    check("placement", json!("best"), "placement: found \"best\", allowed: configured, auto");
    check("volatile_db", json!("redis"), "volatile_db: found \"redis\", allowed: an object");
    let wanted = "db_type: found \"cloud\", allowed: local, cluster, rocksdb, hierarchy";
    check("db_type", json!("cloud"), wanted);
}

#[test]
fn wrong_values_of_levels_are_refused() {
    let level = |field: &str, value: Value, want: &str| {
        let section = json!({ "type": "redis_cluster", field: value });
        check("volatile_db", section, &format!("volatile_db.{field}: {want}"));
    };
    level(
        "type",
        json!("direct_map"),
        "found \"direct_map\", allowed: disabled, hash_map, parallel_hash_map, \
         multi_process_hash_map, redis_cluster",
    );
    level("num_partitions", json!(0), "found 0, allowed: a whole number from 1 to 65536");
    level("num_partitions", json!(2.5), "found 2.5, allowed: a whole number from 1 to 65536");
    level(
        "num_partitions",
        json!("many"),
        "found \"many\", allowed: a whole number from 1 to 65536",
    );
    level("num_node_connections", json!(9), "found 9, allowed: at most num_partitions, 8");
    let count = "allowed: a whole number from 1 to 2147483647";
    level("max_batch_size", json!(-1), &format!("found -1, {count}"));
    level("max_set_batch_size", json!("2147483648"), &format!("found \"2147483648\", {count}"));
    level(
        "overflow_margin",
        json!("18446744073709551616"),
        "found \"18446744073709551616\", allowed: a whole number from 1 to 18446744073709551615",
    );
    level(
        "overflow_policy",
        json!("lru"),
        "found \"lru\", allowed: evict_random, evict_least_used, evict_oldest",
    );
    let inner = "allowed: a number above 0 and below 1";
    level("overflow_resolution_target", json!(1), &format!("found 1, {inner}"));
    level("overflow_resolution_target", json!("0"), &format!("found \"0\", {inner}"));
    level("initial_cache_rate", json!(1.01), "found 1.01, allowed: a number from 0 to 1");
    level("initial_cache_rate", json!("nan"), "found \"nan\", allowed: a number from 0 to 1");
    level("cache_missed_embeddings", json!(2), "found 2, allowed: true or false");
    level("user_name", json!(["a"]), "found a list of 1, allowed: a string");
    level("password", json!(1234), "found a value of another kind, allowed: a string");
    level("address", json!("a;;b"), "found \"\", allowed: host[:port], or several with ; or ,");
    level("tls_client_key", json!(""), "found \"\", allowed: a path");
    check(
        "cpu_memory_db",
        json!({ "type": "redis_cluster" }),
        "cpu_memory_db.type: found \"redis_cluster\", allowed: disabled, hash_map, \
         parallel_hash_map, multi_process_hash_map",
    );
    check(
        "distributed_db",
        json!({ "type": "hash_map" }),
        "distributed_db.type: found \"hash_map\", allowed: disabled, redis_cluster",
    );
}

#[test]
fn wrong_values_of_the_persistent_level_and_the_update_source_are_refused() {
    let rocks = |field: &str, value: Value, want: &str| {
        let section = json!({ "type": "rocks_db", "path": "x", field: value });
        check("persistent_db", section, &format!("persistent_db.{field}: {want}"));
    };
    rocks("type", json!("lmdb"), "found \"lmdb\", allowed: disabled, rocks_db, embedded");
    rocks("path", json!(""), "found \"\", allowed: a folder");
    rocks("num_threads", json!(0), "found 0, allowed: a whole number from 1 to 4096");
    rocks("read_only", json!({}), "found an object, allowed: true or false");
    let wanted = "persistent_db.path: not given, needed: the database's folder";
    check("persistent_db", json!({ "type": "embedded" }), wanted);
    let kafka = |field: &str, value: Value, want: &str| {
        let section = json!({ "type": "kafka", field: value });
        check("update_source", section, &format!("update_source.{field}: {want}"));
    };
    kafka("type", json!("pulsar"), "found \"pulsar\", allowed: null, kafka_message_queue");
    kafka("brokers", json!("a:b"), "found \"a:b\", allowed: host[:port], or several with ; or ,");
    kafka("poll_timeout_ms", json!(0), "found 0, allowed: a whole number from 1 to 86400000");
    kafka(
        "max_commit_interval",
        json!(1.5),
        "found 1.5, allowed: a whole number from 1 to 2147483647",
    );
}

#[test]
fn wrong_values_of_models_are_refused() {
    let model = |field: &str, value: Value, want: &str| {
        check(&format!("models.0.{field}"), value, &format!("models[0].{field}{want}"));
    };
    let name = "allowed: 1 to 120 letters, digits, _ and -";
    model("model", json!(null), ": not given, needed: the model's name");
    model("model", json!(""), &format!(": found \"\", {name}"));
    model("model", json!("a.b"), &format!(": found \"a.b\", {name}"));
    model("model", json!("x".repeat(121)), &format!(": found \"{}\"…, {name}", "x".repeat(60)));
    let wanted = ": not given, needed: a list of folders, one for each table";
    model("sparse_files", json!(null), wanted);
    let wanted = ": found 5, allowed: a string or a list of strings";
    model("sparse_files", json!(5), wanted);
    let wanted = ": found none, allowed: at least one folder for each table";
    model("sparse_files", json!([]), wanted);
    model("sparse_files", json!({ "t": [] }), wanted);
    model("sparse_files", json!(["a", 7]), "[1]: found 7, allowed: a string");
    let path = "allowed: a path, or an s3:// URL";
    model("sparse_files", json!(["a", ""]), &format!("[1]: found \"\", {path}"));
    model(
        "sparse_files",
        json!({ "t": ["hdfs://a"] }),
        &format!(".t[0]: found \"hdfs://a\", {path}"),
    );
    model("dense_file", json!("gs://a"), &format!(": found \"gs://a\", {path}"));
    model("gpucacheper", json!(50), ": found 50, allowed: a number from 0 to 1");
    model("hit_rate_threshold", json!(-0.1), ": found -0.1, allowed: a number of at least 0");
    let wanted = ": found \"inf\", allowed: a number of at least 0";
    model("hit_rate_threshold", json!("inf"), wanted);
    model("refresh_interval", json!(-1), ": found -1, allowed: seconds from 0 to 1000000000");
    let wanted = ": found \"soon\", allowed: seconds from 0 to 1000000000";
    model("refresh_delay", json!("soon"), wanted);
    let wanted = ": found 2, allowed: a number from 0 to 1";
    model("cache_refresh_percentage_per_iteration", json!(2), wanted);
    model("max_batch_size", json!(0), ": found 0, allowed: a whole number from 1 to 2147483647");
    let wanted = ": found 0, allowed: a whole number from 1 to 65536";
    model("num_of_worker_buffer_in_pool", json!(0), wanted);
    model("label_dim", json!("none"), ": found \"none\", allowed: a whole number from 1 to 65536");
    model("deployed_device_list", json!([]), ": found a list of 0, allowed: at least one device");
    model("deployed_device_list", json!([1, 1]), ": found 1 again, allowed: each device once");
    model("deployed_device_list", json!(0), ": found 0, allowed: a list");
    let wanted = ": found \"lru\", allowed: dynamic, static, uvm";
    model("embedding_cache_type", json!("lru"), wanted);
    let wanted = ": found \"stochastic\", allowed: dynamic, which is closest to it, static, uvm";
    model("embedding_cache_type", json!("stochastic"), wanted);
}

#[test]
fn lists_of_other_lengths_than_the_tables_are_refused() {
    let list = |field: &str, value: Value, want: &str| {
        check(&format!("models.0.{field}"), value, &format!("models[0].{field}{want}"));
    };
    let one = ": found a list of 1, allowed: a list of 2, as many as sparse_files";
    list("embedding_vecsize_per_table", json!([1]), one);
    list("maxnum_catfeature_query_per_table_per_sample", json!([1]), one);
    list("embedding_table_names", json!(["a"]), one);
    let three = ": found a list of 3, allowed: a list of 2, as many as sparse_files";
    list("default_value_for_each_table", json!([0, 0, 0]), three);
    let wanted = "[1]: found 1e+39, allowed: a number of 32 bits";
    list("default_value_for_each_table", json!([0, 1e39]), wanted);
    let wanted = "[0]: found 0, allowed: a whole number from 1 to 65536";
    list("embedding_vecsize_per_table", json!([0, 1]), wanted);
    let wanted = "[1]: found \"a\" again, allowed: each name once";
    list("embedding_table_names", json!(["a", "a"]), wanted);
    let wanted = "[0]: found \"a/b\", allowed: 1 to 120 letters, digits, _ and -";
    list("embedding_table_names", json!(["a/b", "c"]), wanted);
    check_all(
        &[
            ("models.0.sparse_files", json!({ "a": ["x"], "b": ["y"] })),
            ("models.0.embedding_table_names", json!(["a", "c"])),
        ],
        &["models[0].embedding_table_names: found 2 names, allowed: the 2 of sparse_files"],
    );
    check_all(
        &[
            ("fuse_embedding_table", json!(true)),
            ("models.0.embedding_vecsize_per_table", json!([4, 4])),
            (
                "models.0.maxnum_catfeature_query_per_table_per_sample",
                json!([2_147_483_647, 2_147_483_647]),
            ),
        ],
        &["models[0].maxnum_catfeature_query_per_table_per_sample: found a sum above 2147483647, \
           allowed: less for tables that are fused"],
    );
}

#[test]
fn two_models_of_one_name_are_refused() {
    let model = json!({ "model": "m", "sparse_files": "a" });
    let wanted = "models[1].model: found \"m\" again, allowed: each name once";
    check("models", json!([model, model]), wanted);
}

#[test]
fn errors_of_a_whole_file_come_together() {
    check_all(
        &[
            ("supportlonglong", json!(2)),
            ("volatile_db", json!({ "type": "redis", "num_partitions": 0, "address": "" })),
            ("persistent_db", json!({ "type": "x" })),
            ("models.0.gpucacheper", json!(7)),
            ("models.0.model", json!("a b")),
        ],
        &[
            "supportlonglong: found 2, allowed: true or false",
            "volatile_db.address: found \"\", allowed: host[:port], or several with ; or ,",
            "volatile_db.num_partitions: found 0, allowed: a whole number from 1 to 65536",
            "persistent_db.type: found \"x\", allowed: disabled, rocks_db, embedded",
            "models[0].model: found \"a b\", allowed: 1 to 120 letters, digits, _ and -",
            "models[0].gpucacheper: found 7, allowed: a number from 0 to 1",
        ],
    );
    let files: Vec<Value> = (0..13).map(|number| json!(number)).collect();
    let error = from_value(&changed(&[("models.0.sparse_files", json!(files))])).unwrap_err();
    let text = error.to_string();
    assert_eq!(text.lines().count(), 11, "{text}");
    assert!(text.ends_with("\nand 3 errors more"), "{text}");
}

#[test]
fn what_is_no_object_is_refused() {
    let check = |json: &str, want: &str| {
        let error = PsConfig::from_json(json.as_bytes(), &around()).unwrap_err();
        assert_eq!(error.to_string(), want, "{json}");
    };
    check("[]", "the whole file: found a list of 0, allowed: an object");
    check("3", "the whole file: found 3, allowed: an object");
    check("null", "the whole file: found null, allowed: an object");
    check(
        "{",
        "the configuration is not valid JSON: EOF while parsing an object at line 1 column 1",
    );
}
