//! The last release's `ps.json`.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use terrace_embedding::{
    BatchSizes, FusedTable, GpuCacheConfig, GpuCacheKind, KeyKind, ModelPath, OverflowConfig,
    OverflowPolicy, PartitionRule, PersistentKind, Placement, PsConfig, Surroundings, TableConfig,
    TagStyle, TlsConfig,
};

use crate::fixtures::{CORES, beside, changed, folder, from_value, local, path_of, read, smallest};

fn table(name: &str, folders: &[ModelPath]) -> TableConfig {
    TableConfig {
        name: name.to_owned(),
        sparse_folders: folders.to_vec(),
        vector_size: None,
        default_value: 0.0,
        max_keys_per_sample: None,
        fused: Vec::new(),
    }
}

#[test]
fn golden_configurations_are_read_without_a_warning() {
    let check = |model: &str, kind: KeyKind, tables: &[(&str, usize, f32, usize)]| {
        let (config, warnings) = read(&format!("golden_{model}"));
        assert_eq!(warnings, [""; 0], "{model}");
        assert_eq!(config.key_kind, kind);
        assert_eq!(config.tag_style, TagStyle::Hps);
        assert_eq!(config.partition_rule, PartitionRule::Mix);
        assert_eq!(config.ram.as_ref().unwrap().num_partitions, 4);
        assert!(config.redis.is_none() && config.persistent.is_none());
        let [entry] = &config.models[..] else { panic!("{config:?}") };
        assert_eq!(entry.name, model);
        assert!(entry.are_table_names_given);
        assert_eq!(entry.worker_buffers, 4);
        assert_eq!(entry.max_dense_features, Some(13));
        assert_eq!(entry.network_file, Some(beside(&format!("1/{model}.json"))));
        let found = entry.tables.iter().map(|table| {
            let keys = table.max_keys_per_sample.unwrap();
            (table.name.as_str(), table.vector_size.unwrap(), table.default_value, keys)
        });
        assert_eq!(found.collect::<Vec<_>>(), tables);
    };
    check("dcn", KeyKind::I64, &[("sparse_embedding1", 16, 0.0, 52)]);
    check("dcnv2", KeyKind::I64, &[("sparse_embedding1", 8, 0.25, 26)]);
    check("deepfm", KeyKind::U32, &[("sparse_embedding1", 11, 0.1, 52)]);
    check("dlrm", KeyKind::I64, &[("sparse_embedding1", 32, 0.0, 26)]);
    let wdl = [("sparse_embedding2", 1, 0.0, 2), ("sparse_embedding1", 16, 0.5, 52)];
    check("wdl", KeyKind::I64, &wdl);
}

#[test]
fn every_field_of_the_levels_is_read() {
    let (config, warnings) = read("last_release");
    assert_eq!(warnings, [""; 0]);
    assert_eq!((config.tag_style, config.partition_rule), (TagStyle::Hps, PartitionRule::Mix));
    assert_eq!(config.placement, Placement::Auto);
    assert!(config.ram.is_none());
    let redis = config.redis.unwrap();
    let addresses: Vec<String> = redis.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["10.0.0.1:7000", "10.0.0.2:7001", "[fe80::1]:7002", "redis-3:7000"]);
    assert_eq!((redis.user_name.as_str(), redis.password.reveal()), ("terrace", "secret"));
    assert!(!format!("{redis:?}").contains("secret"));
    assert_eq!((redis.num_partitions, redis.num_node_connections), (12, 12));
    assert_eq!(redis.batches, BatchSizes { read_rows: 1000, write_rows: 1000 });
    let tls = TlsConfig {
        ca_certificate: "/etc/redis/ca".into(),
        client_certificate: folder().join("certs/client.pem"),
        client_key: folder().join("certs/client.key"),
        server_name: "redis.example".to_owned(),
    };
    assert_eq!(redis.tls, Some(tls));
    let policy = OverflowPolicy::EvictLeastUsed;
    let overflow = OverflowConfig { margin: 2_000_000, policy, target: 0.6 };
    assert_eq!(redis.fill.overflow, overflow);
    assert!(!redis.fill.initialize_after_startup && redis.fill.cache_missed_embeddings);
    assert_eq!(redis.fill.initial_cache_rate, 0.75);
    assert_eq!(redis.fill.update_filters.filters(), ["^ranker_.+$", "wdl"]);
    let models = ["ranker_1", "wdl", "ranker_", "wdl2"];
    let matched = models.map(|model| redis.fill.update_filters.matches(model));
    assert_eq!(matched, [true, true, false, false]);

    let persistent = config.persistent.unwrap();
    assert_eq!(persistent.kind, PersistentKind::RocksDb);
    assert_eq!(persistent.path, folder().join("rows"));
    assert_eq!(persistent.num_threads, 4);
    assert!(persistent.read_only && !persistent.initialize_after_startup);
    assert_eq!(persistent.batches, BatchSizes { read_rows: 2000, write_rows: 2000 });

    let kafka = config.update_source.unwrap();
    let brokers: Vec<String> = kafka.brokers.iter().map(ToString::to_string).collect();
    assert_eq!(brokers, ["kafka-1:9093", "kafka-2:9092"]);
    assert_eq!(kafka.metadata_refresh_interval, Duration::from_secs(10));
    assert_eq!((kafka.receive_buffer_bytes, kafka.max_batch_size), (1_000_000, 4096));
    assert_eq!(kafka.poll_timeout, Duration::from_millis(100));
    assert_eq!(kafka.failure_backoff, Duration::from_millis(20));
    assert_eq!(kafka.max_commit_interval, 16);
}

#[test]
fn every_field_of_a_model_is_read() {
    let (config, _) = read("last_release");
    let [wdl, lookup] = &config.models[..] else { panic!("{config:?}") };
    let wide = TableConfig {
        vector_size: Some(1),
        default_value: 0.5,
        max_keys_per_sample: Some(2),
        ..table("wide", &[beside("1/wdl0_sparse_20000.model")])
    };
    let stored = ModelPath::ObjectStore("s3://models/wdl1_sparse_20000.model".to_owned());
    let deep = TableConfig {
        vector_size: Some(16),
        max_keys_per_sample: Some(26),
        ..table("deep", &[stored])
    };
    assert_eq!(wdl.tables, [wide, deep]);
    assert!(wdl.are_table_names_given);
    assert_eq!(wdl.dense_file, Some(beside("1/wdl_dense_20000.model")));
    assert_eq!((wdl.worker_buffers, wdl.refresher_buffers), (6, 0));
    assert_eq!((wdl.max_batch_size, wdl.max_dense_features), (4096, Some(13)));
    assert_eq!((wdl.label_dim, wdl.slots), (2, Some(28)));
    assert_eq!(wdl.devices, [0, 2]);
    let cache = GpuCacheConfig {
        kind: GpuCacheKind::Uvm,
        share: 0.1,
        hit_rate_threshold: 1.1,
        refresh_delay: Some(Duration::from_millis(2500)),
        refresh_interval: Some(Duration::from_millis(500)),
        refresh_share: 0.2,
        is_filled_at_start: false,
    };
    assert_eq!(wdl.gpu_cache, Some(cache));
    assert_eq!(lookup.tables, [table("sparse_embedding0", &[beside("items")])]);
    assert_eq!((&lookup.gpu_cache, &lookup.dense_file), (&None, &None));
    assert!(!lookup.are_table_names_given);
}

#[test]
fn what_is_not_given_has_the_documented_default() {
    let (config, warnings) = from_value(&smallest()).unwrap();
    assert_eq!(warnings, [""; 0]);
    let ram = config.ram.unwrap();
    assert_eq!((ram.num_partitions, ram.allocation_rate), (CORES as u32, 268_435_456));
    let policy = OverflowPolicy::EvictRandom;
    assert_eq!(ram.fill.overflow, OverflowConfig { margin: u64::MAX, policy, target: 0.8 });
    assert!(ram.fill.initialize_after_startup && !ram.fill.cache_missed_embeddings);
    assert_eq!(ram.fill.initial_cache_rate, 1.0);
    assert_eq!(ram.fill.update_filters.filters(), [".+"]);
    assert_eq!((config.redis, config.persistent), (None, None));
    assert_eq!((config.update_source, config.placement), (None, Placement::Configured));
    let [model] = &config.models[..] else { panic!("{:?}", config.models) };
    let names = [("sparse_embedding0", "a"), ("sparse_embedding1", "b")];
    assert_eq!(model.tables, names.map(|(name, folder)| table(name, &[local(folder)])));
    assert_eq!((model.max_batch_size, &model.devices[..]), (64, &[0][..]));
    assert_eq!((model.worker_buffers, model.refresher_buffers), (1, 1));
    assert_eq!((model.max_dense_features, model.label_dim, model.slots), (None, 1, None));
    let cache = GpuCacheConfig {
        kind: GpuCacheKind::Dynamic,
        share: 0.5,
        hit_rate_threshold: 0.9,
        refresh_delay: None,
        refresh_interval: None,
        refresh_share: 0.0,
        is_filled_at_start: true,
    };
    assert_eq!(model.gpu_cache, Some(cache));
}

#[test]
fn a_machine_of_many_cores_has_16_partitions() {
    for (cores, want) in [(0, 1), (1, 1), (16, 16), (96, 16)] {
        let around = Surroundings { folder: None, model_name: None, cores };
        let (config, _) = PsConfig::from_value(&smallest(), &around).unwrap();
        assert_eq!(config.ram.unwrap().num_partitions, want, "{cores} cores");
    }
}

#[test]
fn levels_have_their_types_under_all_names() {
    let check = |section: Value, want: [bool; 2]| {
        let (config, _) = from_value(&changed(&[("volatile_db", section.clone())])).unwrap();
        assert_eq!([config.ram.is_some(), config.redis.is_some()], want, "{section}");
    };
    let [none, ram, redis] = [[false, false], [true, false], [false, true]];
    check(json!(null), none);
    check(json!({}), none);
    for name in ["disabled", "disable", "none"] {
        check(json!({ "type": name, "address": 5 }), none);
    }
    for name in ["hash_map", "hashmap", "hash", "map", "parallel_hash_map", "parallel_hashmap"] {
        check(json!({ "type": name }), ram);
    }
    for name in ["parallel_hash", "parallel_map", "multi_process_hash_map", "Multi_Process_Map"] {
        check(json!({ "type": name }), ram);
    }
    for name in ["redis_cluster", "redis"] {
        check(json!({ "type": name }), redis);
    }
}

#[test]
fn persistent_levels_have_their_types_under_all_names() {
    let check = |section: Value, want: Option<PersistentKind>| {
        let (config, _) = from_value(&changed(&[("persistent_db", section.clone())])).unwrap();
        assert_eq!(config.persistent.map(|level| level.kind), want, "{section}");
        assert_eq!(config.tag_style, TagStyle::Hps);
    };
    check(json!(null), None);
    check(json!({ "path": "x" }), None);
    check(json!({ "type": "none" }), None);
    for name in ["rocks_db", "rocksdb", "rocks"] {
        check(json!({ "type": name, "path": "x" }), Some(PersistentKind::RocksDb));
    }
    for name in ["embedded", "fjall"] {
        check(json!({ "type": name, "path": "x" }), Some(PersistentKind::Embedded));
    }
}

#[test]
fn fewer_partitions_than_connections_lower_the_default() {
    let redis = json!({ "type": "redis", "num_partitions": 2 });
    let (config, _) = from_value(&changed(&[("volatile_db", redis)])).unwrap();
    assert_eq!(config.redis.unwrap().num_node_connections, 2);
    let (config, _) = from_value(&changed(&[("volatile_db", json!({ "type": "redis" }))])).unwrap();
    let redis = config.redis.unwrap();
    assert_eq!((redis.num_partitions, redis.num_node_connections), (8, 5));
    assert_eq!(redis.batches, BatchSizes { read_rows: 65_536, write_rows: 65_536 });
    assert_eq!(redis.user_name, "default");
}

#[test]
fn tables_of_one_size_are_fused_where_the_file_asks_for_it() {
    let (config, warnings) = read("fused");
    assert_eq!(warnings, [""; 0]);
    let [list, map, apart] = &config.models[..] else { panic!("{config:?}") };
    let fused = |position, name: &str| FusedTable { position, name: name.to_owned() };
    let small = TableConfig {
        vector_size: Some(8),
        default_value: 0.25,
        max_keys_per_sample: Some(4),
        fused: vec![fused(1, "table_b")],
        ..table("fused_embedding0", &[beside("b")])
    };
    let large = TableConfig {
        vector_size: Some(16),
        default_value: 0.5,
        max_keys_per_sample: Some(8),
        fused: vec![fused(0, "table_a"), fused(2, "table_c")],
        ..table("fused_embedding1", &[beside("a"), beside("c")])
    };
    assert_eq!(list.tables, [small, large]);
    assert_eq!(list.worker_buffers, 3);
    let of_map = [
        TableConfig {
            vector_size: Some(32),
            ..table("fused_embedding1", &[beside("e"), beside("f")])
        },
        TableConfig { vector_size: Some(4), ..table("fused_embedding0", &[beside("d")]) },
    ];
    assert_eq!(map.tables, of_map);
    let sizes: Vec<_> = apart.tables.iter().map(|table| table.vector_size).collect();
    assert_eq!(sizes, [Some(4), Some(4)]);
    assert!(apart.tables.iter().all(|table| table.fused.is_empty()));
}

#[test]
fn fewer_default_values_are_those_of_the_fused_tables() {
    let value = changed(&[
        ("fuse_embedding_table", json!(true)),
        ("models.0.embedding_vecsize_per_table", json!([4, 4])),
        ("models.0.default_value_for_each_table", json!([1.5])),
    ]);
    let (config, warnings) = from_value(&value).unwrap();
    assert_eq!(warnings, [""; 0]);
    let [table] = &config.models[0].tables[..] else { panic!("{:?}", config.models) };
    assert_eq!((table.default_value, table.sparse_folders.len()), (1.5, 2));
}

#[test]
fn a_refresh_interval_of_0_is_off_and_a_fraction_is_kept() {
    let check = |seconds: Value, want: Option<Duration>| {
        let changes = [
            ("models.0.refresh_interval", seconds.clone()),
            ("models.0.refresh_delay", seconds.clone()),
            ("models.0.cache_refresh_percentage_per_iteration", json!(0.1)),
        ];
        let (config, _) = from_value(&changed(&changes)).unwrap();
        let cache = config.models[0].gpu_cache.as_ref().unwrap();
        assert_eq!(cache.refresh_interval, want, "{seconds}");
        assert_eq!(cache.refresh_delay, want, "{seconds}");
    };
    check(json!(0), None);
    check(json!("0"), None);
    check(json!(0.5), Some(Duration::from_millis(500)));
    check(json!("10"), Some(Duration::from_secs(10)));
}

#[test]
fn relative_paths_start_in_the_folder_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ps.json");
    std::fs::write(&path, smallest().to_string()).unwrap();
    let (config, _) = PsConfig::read(&path, 1).unwrap();
    let tables = &config.models[0].tables;
    let folders: Vec<&ModelPath> = tables.iter().flat_map(|table| &table.sparse_folders).collect();
    let wanted = ["a", "b"].map(|name| ModelPath::Local(folder.path().join(name)));
    assert_eq!(folders, wanted.iter().collect::<Vec<_>>());
}

#[test]
fn a_file_that_is_not_there_is_an_error_with_its_path() {
    let error = PsConfig::read(Path::new("/nowhere/ps.json"), 1).unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/ps.json: "), "{error}");
    assert!(PsConfig::read(&path_of("golden_dcn"), 1).is_ok());
}
