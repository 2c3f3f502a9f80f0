//! Processes that are killed while they load, replace and roll back models: whatever is loaded
//! afterwards has the rows of its files and all updates since.
//!
//! `TERRACE_KILLS` says how often one is killed, `TERRACE_SEED` when.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use terrace_testkit::Rng;

use crate::persistent_killed::number;
use crate::served::{open_databases, start_beside};
use crate::served_feed::update_source;
use crate::set_world::{SetWorld, Version, model_config};

const FOLDER: &str = "TERRACE_SETS_FOLDER";
const BROKERS: &str = "TERRACE_SETS_BROKERS";
const KIND: &str = "TERRACE_SETS_KIND";
const VERSIONS: u32 = 3;

fn levels(kind: &str, folder: &Path) -> Value {
    json!({ "volatile_db": null, "persistent_db": { "type": kind, "path": folder.join("db") } })
}

fn uncached() -> Value {
    json!({ "gpucache": false })
}

fn start_child(world: &SetWorld, kind: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().expect("this binary"));
    child.args(["--ignored", "--exact", "set_killed::child_that_replaces"]);
    child.env(FOLDER, world.folder.path()).env(KIND, kind);
    child.env(BROKERS, world.feed.proxy.address()).stdout(Stdio::null());
    child.spawn().expect("a child")
}

fn check(kind: &'static str, seed: u64) {
    let mut rng = Rng::new(number("TERRACE_SEED", seed));
    let mut world = SetWorld::new(|folder| levels(kind, folder), uncached());
    let common = world.write_files("common");
    let versions: Vec<Version> =
        (0..VERSIONS).map(|_| Version { own: world.write_files("a-own"), common }).collect();
    let named: Vec<u32> = versions.iter().map(|version| version.own).collect();
    assert_eq!((common, named), (1, (2..2 + VERSIONS).collect()), "as the child counts them");
    for _ in 0..number("TERRACE_KILLS", 5) {
        let mut child = start_child(&world, kind);
        for _ in 0..rng.below(6) {
            let table = ["own", "common"][rng.below(2)];
            world.publish("a", table, &mut rng);
            std::thread::sleep(Duration::from_micros(rng.below(400_000) as u64));
        }
        std::thread::sleep(Duration::from_micros(rng.below(1_500_000) as u64));
        child.kill().expect("a child");
        child.wait().expect("a child");
        world.publish("a", "own", &mut rng);
    }
    let mut before = None;
    for version in versions.iter().rev().chain(&versions) {
        let served = world.load("a", *version);
        world.settle(&served, false);
        before = Some(served);
    }
    drop(before);
}

#[test]
fn models_in_rocksdb_lose_nothing_when_they_are_killed_while_replaced() {
    check("rocksdb", 31);
}

#[test]
fn models_in_an_embedded_store_lose_nothing_when_they_are_killed_while_replaced() {
    check("embedded", 32);
}

#[test]
#[ignore = "it is the child of other tests"]
fn child_that_replaces() {
    let [folder, brokers, kind] =
        [FOLDER, BROKERS, KIND].map(|name| std::env::var(name).expect("other tests run this one"));
    let folder = PathBuf::from(folder);
    let mut levels = levels(&kind, &folder);
    levels["update_source"] = update_source(&brokers);
    let mut rng = Rng::new(u64::from(std::process::id()));
    let mut served = None;
    let mut databases = None;
    loop {
        let version = Version { own: 2 + rng.below(VERSIONS as usize) as u32, common: 1 };
        let config = model_config(&folder, &levels, &uncached(), "a", version);
        let databases = databases.get_or_insert_with(|| open_databases(&config));
        let newer = start_beside(databases, &config);
        std::thread::sleep(Duration::from_millis(rng.below(300) as u64));
        drop(served.replace(newer));
        std::thread::sleep(Duration::from_millis(rng.below(600) as u64));
    }
}
