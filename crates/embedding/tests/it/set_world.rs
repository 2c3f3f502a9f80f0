//! Two models over the same databases, in versions: each has a table of its own, and both share
//! one. What they must find is in a plain map.
//!
//! Everything that is written or published has a number, which is the version in its rows, and is
//! of a time that follows from it. A row is that of the files, or the newest that was published
//! since they were written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use terrace_embedding::{
    LoadProgress, ParameterServer, PsConfig, SharedDatabases, StartProgress, Surroundings,
};
use terrace_testkit::Rng;

use crate::kafka_broker::wait_until;
use crate::served::{
    DEFAULT, open_databases, row, start_beside, try_start_beside, versions_in, write_files,
};
use crate::served_feed::{FILES_MS, PARTITIONS, ServedFeed, payload, set_time};

pub const KEYS: i64 = 40;
pub const MODELS: [&str; 2] = ["a", "b"];

pub fn keys() -> Vec<i64> {
    (0..KEYS).collect()
}

/// Which of the keys of the shared table a model's trainer writes.
fn is_written_by(model: &str, key: i64) -> bool {
    key % 2 == i64::from(model == "b")
}

pub fn topic(model: &str, table: &str) -> String {
    format!("hps_et.{model}.{table}")
}

/// The files of a model: numbers of its own table and of the shared one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    pub own: u32,
    pub common: u32,
}

fn files(folder: &Path, name: &str, number: u32) -> PathBuf {
    folder.join(format!("{name}{number}"))
}

/// One model; `levels` are fields of a configuration, `cache` of its entry.
pub fn model_config(
    folder: &Path,
    levels: &Value,
    cache: &Value,
    model: &str,
    version: Version,
) -> PsConfig {
    let own = files(folder, &format!("{model}-own"), version.own);
    let mut entry = json!({
        "model": model,
        "sparse_files": [own, files(folder, "common", version.common)],
        "embedding_table_names": ["own", "common"],
        "default_value_for_each_table": [DEFAULT, DEFAULT],
        "deployed_device_list": [0],
        "hit_rate_threshold": 1.1,
    });
    let cache = cache.as_object().expect("fields").clone();
    entry.as_object_mut().expect("fields").extend(cache);
    let mut whole = json!({ "supportlonglong": true, "models": [entry] });
    let levels = levels.as_object().expect("fields").clone();
    whole.as_object_mut().expect("fields").extend(levels);
    let around = Surroundings { folder: None, model_name: None, cores: 2 };
    PsConfig::from_value(&whole, &around).expect("a configuration").0
}

/// A model that is served.
pub struct Served {
    pub model: &'static str,
    pub version: Version,
    pub set: Arc<ParameterServer>,
}

pub struct SetWorld {
    pub folder: tempfile::TempDir,
    pub feed: ServedFeed,
    levels: Value,
    cache: Value,
    databases: Option<Arc<SharedDatabases>>,
    number: u32,
    /// The newest that was published, by topic and key.
    newest: BTreeMap<(String, i64), u32>,
}

impl SetWorld {
    /// `levels` are fields of a configuration.
    pub fn new(levels: impl FnOnce(&Path) -> Value, cache: Value) -> Self {
        let topics = ["hps_et.a.own", "hps_et.a.common", "hps_et.b.own", "hps_et.b.common"];
        let topics = topics.map(|topic| (topic, PARTITIONS));
        let dense = ["hps_dense.a", "hps_dense.b"].map(|topic| (topic, 1));
        let folder = tempfile::tempdir().expect("a folder");
        SetWorld {
            feed: ServedFeed::with_topics(&[&topics[..], &dense[..]].concat()),
            levels: levels(folder.path()),
            folder,
            cache,
            databases: None,
            number: 0,
            newest: BTreeMap::new(),
        }
    }

    pub fn databases(&mut self) -> Arc<SharedDatabases> {
        let config = self.config("a", Version { own: 1, common: 1 });
        let opened = self.databases.get_or_insert_with(|| open_databases(&config));
        Arc::clone(opened)
    }

    /// Databases are closed when no set is left.
    pub fn close(&mut self) {
        self.databases = None;
    }

    fn time_ms(number: u32) -> i64 {
        FILES_MS + i64::from(number) * 1_000
    }

    fn next(&mut self) -> u32 {
        self.number += 1;
        self.number
    }

    pub fn write_files(&mut self, name: &str) -> u32 {
        let number = self.next();
        let folder = files(self.folder.path(), name, number);
        write_files(&folder, &keys(), number);
        set_time(&folder, Self::time_ms(number));
        number
    }

    /// New rows of some keys of a model's table.
    pub fn publish(&mut self, model: &str, table: &str, rng: &mut Rng) {
        let number = self.next();
        let mut keys = keys();
        keys.retain(|key| table == "own" || is_written_by(model, *key));
        rng.shuffle(&mut keys);
        keys.truncate(1 + rng.below(keys.len()));
        self.publish_keys(model, table, &keys, number);
    }

    pub fn publish_keys(&mut self, model: &str, table: &str, keys: &[i64], number: u32) {
        let topic = topic(model, table);
        for partition in 0..PARTITIONS {
            let of = |key: &&i64| key.rem_euclid(i64::from(PARTITIONS)) == i64::from(partition);
            let rows: Vec<_> =
                keys.iter().filter(of).map(|key| (*key, row(*key, number))).collect();
            if !rows.is_empty() {
                let payload = payload(rows.into_iter());
                self.feed.send(&topic, partition, &payload, Self::time_ms(number));
            }
        }
        self.feed.flush();
        self.newest.extend(keys.iter().map(|key| ((topic.clone(), *key), number)));
    }

    pub fn config(&self, model: &str, version: Version) -> PsConfig {
        let mut levels = self.levels.clone();
        levels["update_source"] = self.feed.source();
        model_config(self.folder.path(), &levels, &self.cache, model, version)
    }

    pub fn load(&mut self, model: &'static str, version: Version) -> Served {
        let config = self.config(model, version);
        let set = start_beside(&self.databases(), &config);
        Served { model, version, set }
    }

    /// And how many rows were read from files into the database.
    pub fn load_counted(&mut self, model: &'static str, version: Version) -> (Served, u64) {
        let config = self.config(model, version);
        let started = try_start_beside(&self.databases(), &config);
        let (set, steps) = started.unwrap_or_else(|error| panic!("{error}"));
        let is_last = |step: &StartProgress| match step {
            StartProgress::Load(LoadProgress::Loaded { rows, of }) if rows == of => Some(*rows),
            _ => None,
        };
        let loaded = steps.iter().filter_map(is_last).sum();
        (Served { model, version, set }, loaded)
    }

    /// What a key has come to be in files of a number with a topic.
    pub fn want(&self, topic: &str, key: i64, files: u32) -> u32 {
        let newest = self.newest.get(&(topic.to_owned(), key)).copied();
        newest.filter(|newest| *newest > files).unwrap_or(files)
    }

    /// Waits until a model finds what it must, in both of its tables. Rows of the shared one that
    /// the other model writes are right as far as that is `beside` it.
    #[track_caller]
    pub fn settle(&self, served: &Served, beside: bool) {
        let Served { model, version, .. } = served;
        let own = topic(model, "own");
        let want: Vec<_> =
            keys().iter().map(|key| Some(self.want(&own, *key, version.own))).collect();
        wait_until(&format!("{model} of {version:?} has {want:?} in its own"), || {
            self.found(served, "own") == want
        });
        wait_until(&format!("{model} of {version:?} has what is newest of both"), || {
            let found = self.found(served, "common");
            keys().into_iter().zip(found).all(|(key, found)| {
                let writer = MODELS.into_iter().find(|it| is_written_by(it, key));
                let writer = writer.expect("one of the two");
                let newest = self.want(&topic(writer, "common"), key, version.common);
                let may_be_older = writer != *model && !beside;
                let found = found.expect("a row");
                assert!(version.common <= found && found <= newest, "{key}: {found}");
                found == newest || may_be_older
            })
        });
    }

    /// Every row that a look-up gives now.
    pub fn found(&self, served: &Served, table: &str) -> Vec<Option<u32>> {
        let name = format!("{}.{table}", served.model);
        let table = served.set.table(&name).expect("a table of it");
        versions_in(&served.set, table, &keys())
    }
}
