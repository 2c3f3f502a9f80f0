//! Configurations of releases up to 3.3.

use std::time::Duration;

use serde_json::{Value, json};
use terrace_embedding::{
    BatchSizes, KeyKind, OverflowPolicy, PartitionRule, PersistentKind, PsConfig, Surroundings,
    TagStyle,
};

use crate::fixtures::{CORES, around, beside, changed, from_value, json_of, local, path_of, read};

fn addresses(config: &PsConfig) -> Vec<String> {
    let redis = config.redis.as_ref().expect("a Redis level");
    redis.addresses.iter().map(ToString::to_string).collect()
}

fn check_older(config: &PsConfig) {
    assert_eq!(config.tag_style, TagStyle::Hctr);
    assert_eq!(config.partition_rule, PartitionRule::Modulo);
}

const NODES: [&str; 3] = ["192.168.0.10:7000", "192.168.0.20:7000", "192.168.0.30:7000"];

#[test]
fn the_documents_first_sample_is_redis_above_rocksdb() {
    let (config, warnings) = read("document_hierarchy");
    assert_eq!(warnings, [""; 0]);
    check_older(&config);
    assert_eq!(config.key_kind, KeyKind::U32);
    assert!(config.ram.is_none());
    assert_eq!(addresses(&config), NODES);
    let redis = config.redis.unwrap();
    assert_eq!((redis.num_partitions, redis.fill.overflow.margin), (8, 10_000_000));
    assert_eq!(redis.fill.overflow.policy, OverflowPolicy::EvictOldest);
    assert_eq!(redis.batches, BatchSizes { read_rows: 10_000, write_rows: 10_000 });
    let persistent = config.persistent.unwrap();
    assert_eq!(persistent.kind, PersistentKind::RocksDb);
    assert_eq!(persistent.path.to_str(), Some("/root/hctr_rocksdb"));
    assert_eq!(persistent.batches, BatchSizes { read_rows: 10_000, write_rows: 10_000 });
    let [model] = &config.models[..] else { panic!("{:?}", config.models) };
    assert!(!model.are_table_names_given);
    assert_eq!(model.tables[0].sparse_folders, [local("/model/dcn/1/0_sparse_10000.model")]);
    assert_eq!(model.gpu_cache.as_ref().unwrap().refresh_share, 0.1);
}

#[test]
fn the_documents_second_sample_is_memory_above_redis() {
    let (config, warnings) = read("document_redis");
    assert_eq!(warnings, [""; 0]);
    check_older(&config);
    assert_eq!(config.ram.as_ref().unwrap().num_partitions, CORES as u32);
    assert_eq!(addresses(&config), NODES);
    assert_eq!(config.redis.unwrap().fill.initial_cache_rate, 0.5);
    assert!(config.persistent.is_none());
}

#[test]
fn the_documents_third_sample_is_memory_above_rocksdb() {
    let (config, warnings) = read("document_rocksdb");
    assert_eq!(warnings, [""; 0]);
    check_older(&config);
    assert!(config.ram.is_some() && config.redis.is_none());
    assert_eq!(config.persistent.unwrap().kind, PersistentKind::RocksDb);
}

#[test]
fn two_levels_are_read_with_strings_for_numbers() {
    let (config, warnings) = read("two_levels");
    let wanted = "cpu_memory_db.algorithm, distributed_db.refresh_time_after_fetch: accepted, has \
                  no effect here";
    assert_eq!(warnings, [wanted]);
    check_older(&config);
    assert_eq!(config.key_kind, KeyKind::I64);
    assert_eq!(addresses(&config), ["node1:7000", "node2:6380"]);
    let (ram, redis) = (config.ram.unwrap(), config.redis.unwrap());
    assert_eq!((ram.num_partitions, ram.fill.overflow.margin), (5, 1000));
    assert_eq!(ram.fill.overflow.policy, OverflowPolicy::EvictRandom);
    assert_eq!((ram.fill.overflow.target, ram.fill.initial_cache_rate), (0.7, 0.25));
    assert_eq!((redis.num_partitions, redis.num_node_connections), (8, 5));
    assert_eq!(redis.batches, BatchSizes { read_rows: 5000, write_rows: 7000 });
    assert!(redis.fill.cache_missed_embeddings);
    assert!(config.persistent.is_none());
    let kafka = config.update_source.unwrap();
    assert_eq!((kafka.max_batch_size, kafka.max_commit_interval), (1000, 1500));
    assert_eq!(kafka.receive_buffer_bytes, 262_144);
    assert_eq!(kafka.poll_timeout, Duration::from_millis(250));
    let [model] = &config.models[..] else { panic!("{:?}", config.models) };
    assert_eq!((model.worker_buffers, &model.devices[..]), (4, &[0, 1][..]));
    let defaults: Vec<f32> = model.tables.iter().map(|table| table.default_value).collect();
    assert_eq!(defaults, [0.0, 0.5]);
    assert_eq!(model.tables[1].sparse_folders, [beside("1/wdl1_sparse_20000.model")]);
    assert_eq!(model.gpu_cache.as_ref().unwrap().refresh_share, 0.2);
}

#[test]
fn memory_is_on_by_default_beside_the_other_levels() {
    let check = |changes: &[(&str, Value)], style: TagStyle, want: [bool; 3]| {
        let value = changed(changes);
        let (config, _) = from_value(&value).unwrap();
        let levels = [config.ram.is_some(), config.redis.is_some(), config.persistent.is_some()];
        assert_eq!((config.tag_style, levels), (style, want), "{value}");
    };
    let rocks = json!({ "type": "rocksdb", "path": "x" });
    let (last, older) = (TagStyle::Hps, TagStyle::Hctr);
    check(&[("cpu_memory_db", json!({}))], older, [true, false, false]);
    check(&[("cpu_memory_db", json!(null))], older, [false, false, false]);
    check(&[("distributed_db", json!({}))], older, [true, false, false]);
    check(&[("peristent_db", rocks.clone())], older, [true, false, true]);
    check(&[("persistent_db", rocks.clone())], last, [true, false, true]);
    check(&[("update_source", json!({ "type": "kafka" }))], last, [true, false, false]);
    let both = [("cpu_memory_db", json!({})), ("persistent_db", rocks.clone())];
    check(&both, older, [true, false, true]);
    let typo = [("volatile_db", json!({ "type": "redis" })), ("peristent_db", rocks)];
    check(&typo, last, [false, true, true]);
}

#[test]
fn a_db_type_is_its_levels() {
    let (config, warnings) = read("db_type_local");
    assert_eq!(warnings, [""; 0]);
    check_older(&config);
    assert!(config.ram.is_some() && config.redis.is_none() && config.persistent.is_none());

    let (config, warnings) = read("db_type_cluster");
    assert_eq!(warnings, [""; 0]);
    check_older(&config);
    assert_eq!(addresses(&config), ["node1:7000", "node2:7001"]);
    assert_eq!(config.redis.as_ref().unwrap().fill.initial_cache_rate, 1.0);
    assert!(config.ram.is_none() && config.persistent.is_none());

    let (config, warnings) = read("db_type_hierarchy");
    assert_eq!(warnings, [""; 0]);
    check_older(&config);
    assert_eq!(addresses(&config), ["node1:7000", "node2:7000", "node3:7000"]);
    assert_eq!(config.redis.as_ref().unwrap().fill.initial_cache_rate, 0.5);
    assert!(config.ram.is_none());
    let path = config.persistent.unwrap().path;
    assert_eq!(path.to_str(), Some("/current_node/rocksdb_path"));
}

#[test]
fn one_half_has_two_spellings() {
    let check = |rate: Value, want: Result<f64, &str>| {
        let mut value = json_of("db_type_hierarchy");
        value["cache_size_percentage_redis"] = rate.clone();
        let found = from_value(&value).map(|(config, _)| config.redis.unwrap().fill);
        let found = found.map(|fill| fill.initial_cache_rate).map_err(|error| error.to_string());
        assert_eq!(found, want.map_err(str::to_owned), "{rate}");
    };
    check(json!(null), Ok(0.5));
    check(json!(0.5), Ok(0.5));
    check(json!("50"), Ok(0.5));
    check(json!(1), Ok(1.0));
    check(json!(100), Ok(1.0));
    let wrong = "cache_size_percentage_redis: found 101, allowed: a share from 0 to 1, or a \
                 percentage up to 100";
    check(json!(101), Err(wrong));
}

#[test]
fn a_db_type_may_stand_in_the_models() {
    let value = changed(&[
        ("models.0.db_type", json!("redis")),
        ("redis_ip", json!("a:1")),
        ("rocksdb_path", json!("/x")),
        ("cache_size_percentage_redis", json!(0.5)),
    ]);
    let (config, warnings) = from_value(&value).unwrap();
    check_older(&config);
    assert_eq!(addresses(&config), ["a:1"]);
    assert_eq!(
        warnings,
        ["rocksdb_path, cache_size_percentage_redis: accepted, has no effect here"]
    );
}

#[test]
fn a_network_with_an_inference_block_is_one_model_in_memory() {
    let (config, warnings) = read("network_dcn");
    let wanted = "supportlonglong: not given, so keys have 64 bits, which hold those of 32 as well";
    assert_eq!(warnings, [wanted]);
    check_older(&config);
    assert_eq!(config.key_kind, KeyKind::I64);
    assert!(config.ram.is_some() && config.redis.is_none() && config.persistent.is_none());
    let [model] = &config.models[..] else { panic!("{:?}", config.models) };
    assert_eq!(
        (model.name.as_str(), model.max_batch_size, model.label_dim),
        ("network_dcn", 64, 1)
    );
    assert_eq!(
        model.network_file,
        Some(terrace_embedding::ModelPath::Local(path_of("network_dcn")))
    );
    assert_eq!(model.dense_file, Some(local("/model/dcn/1/_dense_10000.model")));
    let [table] = &model.tables[..] else { panic!("{model:?}") };
    assert_eq!(table.sparse_folders, [local("/model/dcn/1/0_sparse_10000.model")]);
    assert_eq!(model.gpu_cache.as_ref().unwrap().hit_rate_threshold, 0.6);
}

#[test]
fn an_inference_block_may_list_several_tables() {
    let mut value = json_of("network_dcn");
    value["inference"]["sparse_model_file"] = json!(["a", "b"]);
    value["supportlonglong"] = json!(false);
    let (config, warnings) = from_value(&value).unwrap();
    assert_eq!((warnings, config.key_kind), (Vec::new(), KeyKind::U32));
    let [model] = &config.models[..] else { panic!("{:?}", config.models) };
    assert_eq!(model.name, "dcn");
    let names: Vec<&str> = model.tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["sparse_embedding0", "sparse_embedding1"]);
}

#[test]
fn forms_that_exclude_each_other_are_refused() {
    let check = |changes: &[(&str, Value)], want: &str| {
        let value = changed(changes);
        assert_eq!(from_value(&value).unwrap_err().to_string(), want, "{value}");
    };
    let beside_levels = "volatile_db: found beside cpu_memory_db or distributed_db, which older \
                         files have in its place; keep one of the two forms";
    check(&[("volatile_db", json!({})), ("cpu_memory_db", json!({}))], beside_levels);
    check(&[("volatile_db", json!({})), ("distributed_db", json!({}))], beside_levels);
    check(
        &[("db_type", json!("local")), ("persistent_db", json!({}))],
        "persistent_db: found beside db_type, which older files have in its place; keep one",
    );
    check(
        &[("persistent_db", json!({})), ("peristent_db", json!({}))],
        "peristent_db: found beside persistent_db, which it is a misspelling of; keep one",
    );
    check(
        &[("db_type", json!("local")), ("models.0.db_type", json!("hierarchy"))],
        "models[0].db_type: found another one than before, allowed: the same for all models",
    );
    let nameless = Surroundings { model_name: None, ..around() };
    let error = PsConfig::from_value(&json_of("network_dcn"), &nameless).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the model's name, which is the file's: found \"\", allowed: 1 to 120 letters, digits, _ \
         and -"
    );
}
