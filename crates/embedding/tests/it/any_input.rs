//! What holds for any input: strings are as good as numbers, and nothing panics.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use terrace_embedding::{PsConfig, Warning};

use crate::fixtures::{CONFIGURATIONS, around, from_value, json_of};

/// The value with numbers and truth values as strings where `is_chosen` says so.
fn with_strings(value: &Value, is_chosen: &mut impl FnMut() -> bool) -> Value {
    match value {
        Value::Number(_) | Value::Bool(_) if is_chosen() => Value::String(value.to_string()),
        Value::Array(items) => items.iter().map(|item| with_strings(item, is_chosen)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| (name.clone(), with_strings(value, is_chosen)));
            Value::Object(fields.collect())
        }
        value => value.clone(),
    }
}

#[test]
fn strings_for_all_numbers_change_nothing() {
    for name in CONFIGURATIONS {
        let value = json_of(name);
        let strings = with_strings(&value, &mut || true);
        assert_eq!(from_value(&strings).unwrap(), from_value(&value).unwrap(), "{name}");
    }
}

const NAMES: [&str; 36] = [
    "supportlonglong",
    "volatile_db",
    "cpu_memory_db",
    "distributed_db",
    "persistent_db",
    "peristent_db",
    "update_source",
    "db_type",
    "redis_ip",
    "rocksdb_path",
    "cache_size_percentage_redis",
    "inference",
    "models",
    "fuse_embedding_table",
    "placement",
    "type",
    "address",
    "brokers",
    "path",
    "num_partitions",
    "num_node_connections",
    "max_batch_size",
    "overflow_margin",
    "overflow_policy",
    "overflow_resolution_target",
    "initial_cache_rate",
    "update_filters",
    "model",
    "sparse_files",
    "sparse_model_file",
    "embedding_table_names",
    "embedding_vecsize_per_table",
    "default_value_for_each_table",
    "maxnum_catfeature_query_per_table_per_sample",
    "deployed_device_list",
    "refresh_interval",
];

const WORDS: [&str; 16] = [
    "redis_cluster",
    "hash_map",
    "rocks_db",
    "kafka",
    "hierarchy",
    "true",
    "0.5",
    "8",
    "a:1;b",
    "nan",
    "-1",
    "1e400",
    "s3://b/k",
    "(",
    "",
    "auto",
];

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0u64..20).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0.0..1.0).prop_map(Value::from),
        prop::sample::select(&WORDS[..]).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        9 => prop::sample::select(&NAMES[..]).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(5, 60, 12, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..12)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// What always holds of a configuration that was read.
fn check(config: &PsConfig) {
    assert!(!config.models.is_empty());
    for model in &config.models {
        assert!(!model.name.is_empty() && !model.devices.is_empty() && !model.tables.is_empty());
        assert!(model.max_batch_size > 0 && model.worker_buffers > 0);
        for table in &model.tables {
            assert!(!table.name.is_empty() && !table.sparse_folders.is_empty());
            assert!(table.default_value.is_finite());
            assert!(table.fused.is_empty() || table.fused.len() == table.sparse_folders.len());
        }
    }
    if let Some(ram) = &config.ram {
        assert!(ram.num_partitions > 0);
    }
    if let Some(redis) = &config.redis {
        assert!(!redis.addresses.is_empty());
        assert!((1..=redis.num_partitions).contains(&redis.num_node_connections));
    }
}

fn read(value: &Value) {
    let text = value.to_string();
    match PsConfig::from_json(text.as_bytes(), &around()) {
        Ok((config, warnings)) => {
            check(&config);
            warnings.iter().map(Warning::to_string).for_each(|text| assert!(!text.is_empty()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

proptest! {
    #[test]
    fn strings_for_some_numbers_change_nothing(
        file in prop::sample::select(&CONFIGURATIONS[..]),
        chosen in prop::collection::vec(any::<bool>(), 1..40),
    ) {
        let value = json_of(file);
        let mut chosen = chosen.into_iter().cycle();
        let strings = with_strings(&value, &mut || chosen.next().unwrap_or(true));
        prop_assert_eq!(from_value(&strings).unwrap(), from_value(&value).unwrap());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>()) {
        let _ = PsConfig::from_json(&bytes, &around());
    }

    #[test]
    fn any_json_is_read_or_refused(value in any_json()) {
        read(&value);
    }

    /// Right but for one place or two.
    #[test]
    fn any_change_to_a_file_is_read_or_refused(
        file in prop::sample::select(&CONFIGURATIONS[..]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any_json()), 1..3),
    ) {
        let mut value = json_of(file);
        for (index, new) in changes {
            let mut places = Vec::new();
            pointers(&value, String::new(), &mut places);
            let place = index.get(&places);
            *value.pointer_mut(place).unwrap() = new;
        }
        read(&value);
    }

    /// A file that was cut off, or with a byte changed.
    #[test]
    fn any_damage_to_a_file_is_read_or_refused(
        file in prop::sample::select(&CONFIGURATIONS[..]),
        at in any::<prop::sample::Index>(),
        byte in any::<Option<u8>>(),
    ) {
        let mut bytes = json_of(file).to_string().into_bytes();
        let at = at.index(bytes.len());
        match byte {
            Some(byte) => bytes[at] = byte,
            None => bytes.truncate(at),
        }
        if let Ok((config, _)) = PsConfig::from_json(&bytes, &around()) {
            check(&config);
        }
    }
}

/// The places of a value that another can stand in.
fn pointers(value: &Value, path: String, places: &mut Vec<String>) {
    let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, value)| pointers(value, format!("{path}/{}", escaped(name)), places)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(index, item)| pointers(item, format!("{path}/{index}"), places)),
        _ => {}
    }
    places.push(path);
}

#[test]
fn files_of_many_entries_are_refused_in_a_few_lines() {
    let keys = (0..100_000).map(|number| (format!("gpucachepe{number}"), Value::Null));
    let keys: Map<String, Value> = keys.collect();
    let model = json!({ "model": "m", "sparse_files": ["a"] });
    let mut value = json!({ "supportlonglong": true, "models": [model] });
    value["models"][0].as_object_mut().unwrap().extend(keys);
    let (_, warnings) = from_value(&value).unwrap();
    assert_eq!(warnings.len(), 101);
    assert_eq!(warnings[100], "and 99900 warnings more");

    let models: Vec<Value> = (0..50_000).map(|_| json!({ "model": "m" })).collect();
    let error = from_value(&json!({ "supportlonglong": 1, "models": models })).unwrap_err();
    assert_eq!(error.to_string().lines().count(), 11);
}
