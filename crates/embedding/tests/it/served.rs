//! A parameter server over files that a test wrote, with the levels that it asks for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use terrace_device::Device;
use terrace_embedding::{
    DatabaseOptions, LoadError, MissingRows, ModelPath, ParameterServer, PlaceBudgets, PsConfig,
    ServedTable, SetOptions, SharedDatabases, SparseFolder, StartError, StartOptions,
    StartProgress, Surroundings,
};

pub const DIM: usize = 8;
pub const MODEL: &str = "m";

/// A row says its key and version in turn; keys are below 2^24.
pub fn row(key: i64, version: u32) -> Vec<f32> {
    [key as f32, version as f32].repeat(DIM / 2)
}

pub fn rows(keys: &[i64], version: u32) -> Vec<f32> {
    keys.iter().flat_map(|key| row(*key, version)).collect()
}

/// The version of a row that was looked up; `None` for the default.
#[track_caller]
pub fn version_of(key: i64, row: &[f32]) -> Option<u32> {
    if row.iter().all(|number| *number == DEFAULT) {
        return None;
    }
    let version = row[1] as u32;
    assert_eq!(row, self::row(key, version), "key {key} has a mixed row");
    Some(version)
}

pub const DEFAULT: f32 = -0.5;

/// The files of a table with these keys, all of one version.
pub fn write_files(folder: &Path, keys: &[i64], version: u32) {
    std::fs::create_dir_all(folder).expect("a folder");
    let of_keys: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    let numbers = rows(keys, version);
    let of_rows: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    for (name, bytes) in [("key", of_keys), ("emb_vector", of_rows)] {
        std::fs::write(folder.join(name), bytes).expect("a file");
    }
}

/// One model with one table in `files`; `fields` are merged into the top, `model` into its entry.
pub fn config(files: &Path, fields: &Value, model: &Value) -> PsConfig {
    let mut entry = json!({
        "model": MODEL,
        "sparse_files": [files],
        "embedding_table_names": ["t"],
        "default_value_for_each_table": [DEFAULT],
        "deployed_device_list": [0],
        "hit_rate_threshold": 1.1,
        "gpucache": false,
    });
    merge(&mut entry, model);
    let mut whole = json!({ "supportlonglong": true, "models": [entry] });
    merge(&mut whole, fields);
    let around = Surroundings { folder: None, model_name: None, cores: 2 };
    PsConfig::from_value(&whole, &around).expect("a configuration").0
}

fn merge(into: &mut Value, from: &Value) {
    let (Value::Object(into), Value::Object(from)) = (into, from) else { panic!("two objects") };
    into.extend(from.clone());
}

pub fn start(config: &PsConfig) -> ParameterServer {
    try_start(config).unwrap_or_else(|error| panic!("{error}"))
}

pub fn try_start(config: &PsConfig) -> Result<ParameterServer, StartError> {
    start_saying(config, &mut |_| ())
}

pub fn start_saying(
    config: &PsConfig,
    say: &mut dyn FnMut(String),
) -> Result<ParameterServer, StartError> {
    start_options("host", say, |options| ParameterServer::start(config, options))
}

/// As one of several hosts.
pub fn start_on(host: &str, config: &PsConfig) -> ParameterServer {
    start_options(host, &mut |_| (), |options| ParameterServer::start(config, options))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn start_options<T>(
    host: &str,
    say: &mut dyn FnMut(String),
    start: impl FnOnce(StartOptions<'_>) -> T,
) -> T {
    let options = StartOptions {
        devices: vec![Device::Cpu],
        host_name: host.to_owned(),
        library_folders: Vec::<PathBuf>::new(),
        redis_time: Duration::from_millis(500),
        read_time: Duration::from_secs(5),
        threads: 2,
        budgets: PlaceBudgets { device: 1 << 30, ram: 1 << 30 },
        open: &open_local,
        progress: &mut |_, _| (),
        say,
    };
    start(options)
}

fn open_local(path: &ModelPath, dim: Option<usize>) -> Result<SparseFolder, LoadError> {
    match path {
        ModelPath::Local(path) => SparseFolder::open(path, dim),
        ModelPath::ObjectStore(url) => panic!("no object store here: {url}"),
    }
}

/// What sets are started over.
pub fn open_databases(config: &PsConfig) -> Arc<SharedDatabases> {
    let options = DatabaseOptions {
        devices: vec![Device::Cpu],
        host_name: "host".to_owned(),
        library_folders: Vec::new(),
        redis_time: Duration::from_millis(500),
        read_time: Duration::from_secs(5),
        threads: 2,
        budgets: PlaceBudgets { device: 1 << 30, ram: 1 << 30 },
    };
    let databases = SharedDatabases::open(config, options, &mut |_| ());
    databases.unwrap_or_else(|error| panic!("{error}"))
}

/// A set beside others, and what was reported while it started.
pub fn try_start_beside(
    databases: &Arc<SharedDatabases>,
    config: &PsConfig,
) -> Result<(Arc<ParameterServer>, Vec<StartProgress>), StartError> {
    let mut steps = Vec::new();
    let options =
        SetOptions { open: &open_local, progress: &mut |_, at| steps.push(at), say: &mut |_| () };
    let set = ParameterServer::start_beside(databases, config, options)?;
    Ok((Arc::new(set), steps))
}

pub fn start_beside(databases: &Arc<SharedDatabases>, config: &PsConfig) -> Arc<ParameterServer> {
    try_start_beside(databases, config).unwrap_or_else(|error| panic!("{error}")).0
}

pub fn table(server: &ParameterServer) -> &Arc<ServedTable> {
    server.table("t").expect("a table")
}

/// The versions of keys, as a look-up gives them.
#[track_caller]
pub fn versions(server: &ParameterServer, keys: &[i64]) -> Vec<Option<u32>> {
    versions_in(server, table(server), keys)
}

#[track_caller]
pub fn versions_in(
    server: &ParameterServer,
    table: &Arc<ServedTable>,
    keys: &[i64],
) -> Vec<Option<u32>> {
    let mut rows = vec![0.0; keys.len() * DIM];
    server.look_up(table, keys, MissingRows::AsConfigured, &mut rows).expect("a look-up");
    keys.iter().zip(rows.chunks(DIM)).map(|(key, row)| version_of(*key, row)).collect()
}
