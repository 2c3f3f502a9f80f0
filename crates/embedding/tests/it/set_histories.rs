//! Random histories of two models that are loaded, replaced, rolled back, unloaded and updated
//! while they serve, and of processes that end in between, against a plain map.
//!
//! `TERRACE_SEED` repeats them, `TERRACE_HISTORIES` multiplies their steps.

use std::path::Path;

use serde_json::{Value, json};
use terrace_testkit::{RedisCluster, Rng};

use crate::persistent_killed::number;
use crate::set_world::{MODELS, Served, SetWorld, Version};

const STEPS: u64 = 24;
/// Versions of a model that it may be rolled back to.
const ROLLED_BACK_MOST: usize = 3;

struct History {
    world: SetWorld,
    rng: Rng,
    /// The newest version of each model that is served.
    served: Vec<Served>,
    /// Older ones, which somebody still asks.
    older: Vec<Served>,
    /// All there have been.
    versions: Vec<(&'static str, Version)>,
    /// Whether an older version may be asked: where only Redis has rows, it finds those of the
    /// newest.
    may_linger: bool,
}

impl History {
    fn new(world: SetWorld, seed: u64, may_linger: bool) -> Self {
        let rng = Rng::new(number("TERRACE_SEED", seed));
        let mut history = History {
            world,
            rng,
            served: Vec::new(),
            older: Vec::new(),
            versions: Vec::new(),
            may_linger,
        };
        let common = history.world.write_files("common");
        for model in MODELS {
            let own = history.world.write_files(&format!("{model}-own"));
            history.versions.push((model, Version { own, common }));
        }
        history
    }

    fn run(mut self) {
        for model in MODELS {
            self.load_newest(model);
        }
        for step in 0..STEPS * number("TERRACE_HISTORIES", 1) {
            let model = *self.rng.pick(&MODELS);
            let what = self.rng.below(16);
            println!("{step}: {what} {model}");
            match what {
                0..5 => {
                    let table = *self.rng.pick(&["own", "common"]);
                    self.world.publish(model, table, &mut self.rng);
                }
                5..8 => self.check(),
                8 | 9 => self.replace(model),
                10 | 11 => self.roll_back(model),
                12 => self.unload(model),
                13 => self.load_newest(model),
                14 => self.older.clear(),
                _ => self.restart(),
            }
        }
        self.check();
    }

    fn load(&mut self, model: &'static str, version: Version) {
        let new = self.world.load(model, version);
        if let Some(place) = self.served.iter().position(|served| served.model == model) {
            let old = self.served.remove(place);
            if self.may_linger && self.rng.below(2) == 0 {
                self.older.push(old);
            }
        }
        self.served.push(new);
    }

    fn load_newest(&mut self, model: &'static str) {
        let newest = self.versions.iter().rev().find(|(of, _)| *of == model);
        self.load(model, newest.expect("each has one").1);
    }

    /// With new files of its own table, or of both.
    fn replace(&mut self, model: &'static str) {
        let before = self.versions.iter().rev().find(|(of, _)| *of == model);
        let before = before.expect("each has one").1;
        let own = self.world.write_files(&format!("{model}-own"));
        let common = match self.rng.below(3) {
            0 => self.world.write_files("common"),
            _ => before.common,
        };
        let version = Version { own, common };
        self.versions.push((model, version));
        self.load(model, version);
    }

    fn roll_back(&mut self, model: &'static str) {
        let of_model = self.versions.iter().rev().filter(|(of, _)| *of == model);
        let known: Vec<Version> = of_model.take(ROLLED_BACK_MOST).map(|it| it.1).collect();
        let version = *self.rng.pick(&known);
        self.load(model, version);
    }

    fn unload(&mut self, model: &str) {
        self.served.retain(|served| served.model != model);
    }

    /// As if the process had ended.
    fn restart(&mut self) {
        let served: Vec<_> = self.served.drain(..).map(|it| (it.model, it.version)).collect();
        self.older.clear();
        self.world.close();
        served.into_iter().for_each(|(model, version)| self.load(model, version));
    }

    fn check(&self) {
        for served in self.served.iter().chain(&self.older) {
            let other = self.served.iter().chain(&self.older).any(|other| {
                let [one, another] = [served, other].map(|it| it.set.table("common"));
                let is_one = one.zip(another).is_some_and(|(a, b)| std::sync::Arc::ptr_eq(a, b));
                other.model != served.model && is_one
            });
            self.world.settle(served, other);
        }
    }
}

fn check(levels: impl FnOnce(&Path) -> Value, cache: Value, seed: u64) {
    History::new(SetWorld::new(levels, cache), seed, true).run();
}

fn database(kind: &str, folder: &Path) -> Value {
    json!({ "type": kind, "path": folder.join("db") })
}

fn cached() -> Value {
    json!({ "gpucache": true, "gpucacheper": 0.5 })
}

fn uncached() -> Value {
    json!({ "gpucache": false })
}

#[test]
fn histories_of_models_in_memory_agree_with_a_map() {
    check(|_| json!({ "volatile_db": { "type": "hash_map" } }), cached(), 21);
}

#[test]
fn histories_of_models_in_an_embedded_store_agree_with_a_map() {
    let levels = |folder: &Path| {
        let database = database("embedded", folder);
        json!({ "volatile_db": null, "persistent_db": database })
    };
    check(levels, uncached(), 22);
}

#[test]
fn histories_of_models_in_rocksdb_below_memory_agree_with_a_map() {
    let levels = |folder: &Path| {
        let memory = json!({ "type": "hash_map", "cache_missed_embeddings": true });
        json!({ "volatile_db": memory, "persistent_db": database("rocksdb", folder) })
    };
    check(levels, cached(), 23);
}

#[test]
fn histories_of_models_in_redis_above_a_store_agree_with_a_map() {
    let cluster = RedisCluster::start();
    let address = cluster.nodes().join(",");
    let levels = |folder: &Path| {
        let redis = json!({
            "type": "redis_cluster", "address": address, "cache_missed_embeddings": true,
        });
        json!({ "volatile_db": redis, "persistent_db": database("embedded", folder) })
    };
    check(levels, cached(), 24);
}

#[test]
fn histories_of_models_in_redis_alone_agree_with_a_map() {
    let cluster = RedisCluster::start();
    let address = cluster.nodes().join(",");
    let levels = |_: &Path| json!({ "volatile_db": { "type": "redis", "address": address } });
    History::new(SetWorld::new(levels, cached()), 25, false).run();
}
