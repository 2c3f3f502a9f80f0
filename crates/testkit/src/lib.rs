//! What tests of several crates share: where test data lies, random numbers, a tiny model, Redis,
//! a Kafka broker, an object store.
//!
//! Golden data is found under `testdata/`, or under the folder named by `TERRACE_TESTDATA`, so that
//! other data of the same layout can be put in.
#![forbid(unsafe_code)]

mod golden_kv;
mod kafka_broker;
mod object_server;
mod redis;
mod rng;
mod safetensors_file;
mod tiny_model;
mod tiny_ranker;
mod wait;

use std::path::{Path, PathBuf};

pub use golden_kv::{GoldenKv, counts};
pub use kafka_broker::KafkaBroker;
pub use object_server::ObjectServer;
pub use redis::{RedisCluster, RedisReply, RedisServer, free_port};
pub use rng::Rng;
pub use safetensors_file::SafetensorsFile;
pub use tiny_model::TinyModel;
pub use tiny_ranker::TinyRanker;
pub use wait::wait_until;

/// The folder of one set of golden data, such as `llm`.
pub fn golden_set(set: &str) -> PathBuf {
    let root = match std::env::var_os("TERRACE_TESTDATA") {
        Some(root) => PathBuf::from(root),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata"),
    };
    root.join(set)
}

/// The cases of a set: its folders, by name.
pub fn golden_cases(set: &str) -> Vec<(String, PathBuf)> {
    let folder = golden_set(set);
    let entries = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("golden data {}: {error}", folder.display()));
    let mut cases: Vec<_> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.is_dir())
        .map(|path| (file_name(&path), path))
        .collect();
    cases.sort();
    assert!(!cases.is_empty(), "no golden cases in {}", folder.display());
    cases
}

/// The JSON file of what a reference run of the default model gave; `None`, which is printed, when
/// the set has none.
pub fn smollm2_reference() -> Option<PathBuf> {
    let path = golden_set("llm").join("smollm2.json");
    if !path.exists() {
        println!("golden llm: smollm2 skipped, {} is not there", path.display());
        return None;
    }
    Some(path)
}

/// The default model, as `make model` leaves it in the user's cache folder.
pub fn smollm2_gguf() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let path = cache
        .expect("HOME or XDG_CACHE_HOME is set")
        .join("terrace/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    assert!(path.exists(), "{} is missing: run `make model`", path.display());
    path
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
