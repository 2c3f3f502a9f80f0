//! Sets of tables that are served beside each other: what they share, what each has for itself,
//! and what is left when one ends.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use terrace_embedding::{LevelKind, LoadProgress, RowDatabase, ServedSets, StartProgress};

use crate::kafka_broker::{PATIENCE, wait_until};
use crate::persistent_stores::{Kind, open};
use crate::served::{
    DIM, config, open_databases, start_beside, try_start_beside, versions, write_files,
};
use crate::served_feed::{FILES_MS, set_time, wait_until_at_end};
use crate::set_world::{SetWorld, Version, keys, topic};

fn embedded(folder: &Path) -> Value {
    json!({
        "volatile_db": null,
        "persistent_db": { "type": "embedded", "path": folder.join("db") },
    })
}

fn memory(_: &Path) -> Value {
    json!({ "volatile_db": { "type": "hash_map" } })
}

fn uncached() -> Value {
    json!({ "gpucache": false })
}

/// The first version of a model.
fn first(world: &mut SetWorld, model: &str) -> Version {
    let own = world.write_files(&format!("{model}-own"));
    let common = world.write_files("common");
    Version { own, common }
}

/// A model with another table of its own.
fn next(world: &mut SetWorld, model: &str, version: Version) -> Version {
    Version { own: world.write_files(&format!("{model}-own")), ..version }
}

#[test]
fn models_share_a_table_for_as_long_as_one_of_them_is_served() {
    for levels in [memory as fn(&Path) -> Value, embedded] {
        let mut world = SetWorld::new(levels, json!({ "gpucache": true, "gpucacheper": 1.0 }));
        let of_a = first(&mut world, "a");
        let own = world.write_files("b-own");
        let of_b = Version { own, ..of_a };
        let a = world.load("a", of_a);
        let b = world.load("b", of_b);
        let [one, other] = [&a, &b].map(|it| Arc::clone(it.set.table("common").unwrap()));
        assert!(Arc::ptr_eq(&one, &other));
        let sets = [Arc::clone(&a.set), Arc::clone(&b.set)];
        assert_eq!(ServedSets(&sets).tables().len(), 3);
        drop((one, other, sets));
        for number in [101, 102] {
            world.publish_keys("a", "common", &[2, 4], number);
            world.publish_keys("b", "common", &[3, 5], number);
            world.publish_keys("b", "own", &[3], number);
            world.settle(&a, true);
            world.settle(&b, true);
        }
        // What only the first has ends with it, and the shared one goes on.
        let alone = Arc::downgrade(a.set.table("own").unwrap());
        drop(a);
        wait_until("its table has ended", || alone.strong_count() == 0);
        world.publish_keys("b", "common", &[3, 7], 103);
        world.publish_keys("b", "own", &[4], 103);
        world.settle(&b, false);
        let a = world.load("a", of_a);
        assert!(Arc::ptr_eq(a.set.table("common").unwrap(), b.set.table("common").unwrap()));
        world.publish_keys("a", "common", &[2, 6], 104);
        world.settle(&a, true);
        world.settle(&b, true);
    }
}

#[test]
fn versions_of_a_model_are_served_beside_each_other_with_their_updates() {
    for levels in [memory as fn(&Path) -> Value, embedded] {
        let mut world = SetWorld::new(levels, uncached());
        let old = first(&mut world, "a");
        let mut rng = terrace_testkit::Rng::new(5);
        let older = world.load("a", old);
        world.publish("a", "own", &mut rng);
        world.settle(&older, false);
        let newer = next(&mut world, "a", old);
        let newer = world.load("a", newer);
        for _ in 0..3 {
            world.publish("a", "own", &mut rng);
            world.publish("a", "common", &mut rng);
            world.settle(&older, false);
            world.settle(&newer, false);
        }
        drop(newer);
        world.publish("a", "own", &mut rng);
        world.settle(&older, false);
    }
}

#[test]
fn a_roll_back_finds_the_rows_and_the_updates_since() {
    for (seed, kind) in [(1, "embedded"), (2, "rocksdb")] {
        let levels = |folder: &Path| {
            json!({
                "volatile_db": null,
                "persistent_db": { "type": kind, "path": folder.join("db") },
            })
        };
        let mut world = SetWorld::new(levels, uncached());
        let mut rng = terrace_testkit::Rng::new(seed);
        let old = first(&mut world, "a");
        let (served, rows) = world.load_counted("a", old);
        assert_eq!(rows, 2 * keys().len() as u64, "both tables");
        world.publish("a", "own", &mut rng);
        world.settle(&served, false);
        wait_until_at_end(&served.set);
        let new = next(&mut world, "a", old);
        let (newer, rows) = world.load_counted("a", new);
        assert_eq!(rows, keys().len() as u64, "the other is shared");
        drop(served);
        world.publish("a", "own", &mut rng);
        world.settle(&newer, false);
        let (back, rows) = world.load_counted("a", old);
        assert_eq!(rows, 0, "they are there");
        drop(newer);
        world.publish("a", "own", &mut rng);
        world.settle(&back, false);
        // Whoever starts anew finds either.
        drop(back);
        world.close();
        for version in [new, old, new] {
            let (served, rows) = world.load_counted("a", version);
            assert_eq!(rows, 0, "{kind} {version:?}");
            world.settle(&served, false);
            drop(served);
            world.close();
        }
    }
}

#[test]
fn two_versions_stay_on_disk_and_older_ones_go() {
    let mut world = SetWorld::new(embedded, uncached());
    let mut version = first(&mut world, "a");
    let mut served = world.load("a", version);
    let tags = |world: &SetWorld| {
        let database: Arc<dyn RowDatabase> = open(Kind::Embedded, &world.folder.path().join("db"));
        let own = topic("a", "own");
        let tags = database.tags().unwrap().into_iter();
        tags.filter(|tag| tag.starts_with(&own)).collect::<Vec<_>>()
    };
    for _ in 0..4 {
        version = next(&mut world, "a", version);
        served = world.load("a", version);
        world.settle(&served, false);
    }
    // Three at once while an older one is asked.
    let newer = next(&mut world, "a", version);
    let newer = world.load("a", newer);
    let newest = next(&mut world, "a", version);
    let newest = world.load("a", newest);
    for served in [&served, &newer, &newest] {
        world.settle(served, false);
    }
    drop((served, newer));
    world.settle(&newest, false);
    drop(newest);
    world.close();
    assert_eq!(tags(&world).len(), 2, "{:?}", tags(&world));
}

#[test]
fn files_that_changed_at_the_same_place_are_another_version() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    let write = |version: u32| {
        write_files(&files, &keys(), version);
        set_time(&files, FILES_MS + i64::from(version) * 1_000);
    };
    write(1);
    let config = config(&files, &embedded(folder.path()), &json!({}));
    let databases = open_databases(&config);
    let one = start_beside(&databases, &config);
    let same = start_beside(&databases, &config);
    assert!(Arc::ptr_eq(one.table("t").unwrap(), same.table("t").unwrap()));
    write(2);
    let other = start_beside(&databases, &config);
    assert!(!Arc::ptr_eq(one.table("t").unwrap(), other.table("t").unwrap()));
    assert_eq!(versions(&one, &[1, 2]), [Some(1); 2]);
    assert_eq!(versions(&other, &[1, 2]), [Some(2); 2]);
    assert_ne!(one.version(one.table("t").unwrap()), other.version(other.table("t").unwrap()));
    // Other settings make another table of the same files, too.
    let cached = json!({ "gpucache": true, "gpucacheper": 0.5 });
    let cached = crate::served::config(&files, &embedded(folder.path()), &cached);
    let cached = start_beside(&databases, &cached);
    assert!(!Arc::ptr_eq(other.table("t").unwrap(), cached.table("t").unwrap()));
    assert_eq!(versions(&cached, &[1, 2]), [Some(2); 2]);
    drop((one, same, other, cached));
    // Files that were touched are compared, and found.
    set_time(&files, FILES_MS + 9_000);
    let (again, steps) = try_start_beside(&databases, &config).unwrap();
    let is_load =
        |it: &StartProgress| matches!(it, StartProgress::Load(LoadProgress::Loaded { .. }));
    assert!(!steps.iter().any(is_load), "{steps:?}");
    assert_eq!(versions(&again, &[1, 2]), [Some(2); 2]);
}

#[test]
fn a_set_that_cannot_start_leaves_the_others_as_they_are() {
    let mut world = SetWorld::new(embedded, uncached());
    let version = first(&mut world, "a");
    let served = world.load("a", version);
    let databases = world.databases();
    let absent = world.config("a", Version { own: 999, ..version });
    let error = try_start_beside(&databases, &absent).err().unwrap().to_string();
    assert!(error.contains("hps_et.a.own: its files cannot be read"), "{error}");
    let mut other = world.config("a", version);
    other.persistent.as_mut().unwrap().path = "elsewhere".into();
    let error = try_start_beside(&databases, &other).err().unwrap().to_string();
    assert!(error.contains("persistent_db.path") && error.contains("restart"), "{error}");
    let mut other = world.config("a", version);
    other.update_source = None;
    let error = try_start_beside(&databases, &other).err().unwrap().to_string();
    assert!(error.contains("update_source.type"), "{error}");
    world.publish_keys("a", "own", &[1, 2], 50);
    world.settle(&served, false);
}

#[test]
fn a_database_that_is_not_filled_from_files_has_one_version() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    write_files(&files, &keys(), 1);
    let with = |fields: Value| {
        let mut levels = embedded(folder.path());
        let more = fields.as_object().unwrap().clone();
        levels["persistent_db"].as_object_mut().unwrap().extend(more);
        levels
    };
    let filled = config(&files, &with(json!({})), &json!({}));
    drop(start_beside(&open_databases(&filled), &filled));
    write_files(&files, &keys(), 2);
    let filters = with(json!({ "initialize_after_startup": false }));
    let plain = config(&files, &filters, &json!({}));
    let databases = open_databases(&plain);
    let one = start_beside(&databases, &plain);
    assert_eq!(versions(&one, &[1]), [Some(1)], "what the database has");
    let other = config(&files, &filters, &json!({ "default_value_for_each_table": [7.5] }));
    let error = try_start_beside(&databases, &other).err().unwrap().to_string();
    assert!(error.contains("hps_et.m.t") && error.contains("unload"), "{error}");
    drop((one, databases));
    // Nobody writes to one that is read only, so all may read it.
    let filters = with(json!({ "read_only": true }));
    let [one, other] = [json!({}), json!({ "default_value_for_each_table": [7.5] })]
        .map(|model| config(&files, &filters, &model));
    let databases = open_databases(&one);
    let [one, other] = [one, other].map(|config| start_beside(&databases, &config));
    assert_eq!(versions(&one, &[1]), [Some(1)]);
    assert_eq!(versions(&other, &[1]), [Some(1)]);
}

#[test]
fn dense_weights_come_to_every_set_of_a_model() {
    let mut world = SetWorld::new(memory, uncached());
    let old = first(&mut world, "a");
    let older = world.load("a", old);
    let newer = world.load("a", old);
    let publisher = world.feed.broker.publisher();
    let publish = |version: u64| {
        publisher.publish_dense("hps_dense.a", version, &[version as u8; 100]).unwrap();
        publisher.flush(PATIENCE).unwrap();
        world.feed.proxy.add_time("hps_dense.a", 0, FILES_MS + 100_000);
    };
    let has = |set: &terrace_embedding::ParameterServer, version: u64| {
        set.dense_weights("a").is_some_and(|it| it.version == version)
    };
    publish(1);
    wait_until("both have it", || has(&older.set, 1) && has(&newer.set, 1));
    assert!(older.set.dense_weights("b").is_none());
    drop(older);
    publish(2);
    wait_until("the other goes on", || has(&newer.set, 2));
}

#[test]
fn a_table_on_no_level_of_its_own_counts_in_every_set() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    write_files(&files, &keys(), 3);
    let cache = json!({ "gpucache": true, "gpucacheper": 1.0 });
    let config = config(&files, &memory(folder.path()), &cache);
    let databases = open_databases(&config);
    let sets = [(); 2].map(|()| start_beside(&databases, &config));
    let all = ServedSets(&sets);
    assert_eq!((all.tables().len(), all.names().len()), (1, 1));
    assert_eq!(versions(&sets[0], &keys()), vec![Some(3); keys().len()]);
    let table = sets[1].table("t").unwrap();
    assert_eq!(table.counters().keys, keys().len() as u64, "it is one table");
    let ram = table.levels().level(LevelKind::Ram).unwrap();
    assert_eq!(ram.store().count().unwrap(), keys().len() as u64);
    assert_eq!(table.spec().dim, DIM);
    let walked = all.refreshes();
    sets[1].refresh();
    wait_until("it is walked once", || all.refreshes() > walked);
    assert_eq!(sets[0].refreshes(), sets[1].refreshes());
}
