//! The files of `testdata/ps`, and a smallest configuration to change.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use terrace_embedding::{ConfigError, ModelPath, PsConfig, Surroundings, Warning};

pub const CORES: usize = 4;
pub const CONFIGURATIONS: [&str; 15] = [
    "db_type_cluster",
    "db_type_hierarchy",
    "db_type_local",
    "document_hierarchy",
    "document_redis",
    "document_rocksdb",
    "fused",
    "golden_dcn",
    "golden_dcnv2",
    "golden_deepfm",
    "golden_dlrm",
    "golden_wdl",
    "last_release",
    "network_dcn",
    "two_levels",
];

/// Of configurations, which are ours: no other set of golden data has them.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/ps")
}

pub fn path_of(name: &str) -> PathBuf {
    folder().join(format!("{name}.json"))
}

/// Where a relative path of a file of `testdata/ps` leads.
pub fn beside(path: &str) -> ModelPath {
    ModelPath::Local(folder().join(path))
}

pub fn local(path: &str) -> ModelPath {
    ModelPath::Local(path.into())
}

pub fn json_of(name: &str) -> Value {
    let json = std::fs::read(path_of(name)).expect("a file of testdata/ps");
    serde_json::from_slice(&json).expect("its JSON")
}

/// A file of `testdata/ps` and its warnings.
pub fn read(name: &str) -> (PsConfig, Vec<String>) {
    let (config, warnings) =
        PsConfig::read(&path_of(name), CORES).unwrap_or_else(|error| panic!("{name}: {error}"));
    (config, warnings.iter().map(Warning::to_string).collect())
}

pub fn around() -> Surroundings<'static> {
    Surroundings { folder: None, model_name: Some("dcn"), cores: CORES }
}

pub fn from_value(value: &Value) -> Result<(PsConfig, Vec<String>), ConfigError> {
    let (config, warnings) = PsConfig::from_value(value, &around())?;
    Ok((config, warnings.iter().map(Warning::to_string).collect()))
}

/// One model with two tables, and nothing else.
pub fn smallest() -> Value {
    json!({
        "supportlonglong": true,
        "models": [{ "model": "m", "sparse_files": ["a", "b"] }],
    })
}

/// `smallest` with other values: `("models.0.gpucache", false)`; `null` takes a field away.
pub fn changed(changes: &[(&str, Value)]) -> Value {
    let mut value = smallest();
    for (path, new) in changes {
        let mut place = &mut value;
        for part in path.split('.') {
            place = match place {
                Value::Array(items) => &mut items[part.parse::<usize>().expect("an index")],
                place => &mut place[part],
            };
        }
        *place = new.clone();
    }
    value
}
