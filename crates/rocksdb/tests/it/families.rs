//! Families: several in one database, found again, made and dropped while others are read.

use std::sync::atomic::{AtomicBool, Ordering};

use terrace_rocksdb::{Durability, RocksError};

use crate::databases::{get, open, put, rest, some};

#[test]
fn families_have_keys_of_their_own_and_are_found_again() {
    let folder = tempfile::tempdir().expect("a folder");
    // Folders above it are made too.
    let folder = folder.path().join("a/b");
    let db = open(&folder);
    assert_eq!(db.family_names(), ["default"]);
    put(&db, "users", &[("k1", "u1"), ("k2", "u2")]);
    put(&db, "items", &[("k1", "i1")]);
    put(&db, "default", &[("k1", "d1")]);
    let check = |db: &terrace_rocksdb::RocksDb| {
        assert_eq!(db.family_names(), ["default", "items", "users"]);
        for (name, want) in [("users", &["u1", "u2"][..]), ("items", &["i1"]), ("default", &["d1"])]
        {
            let family = db.family(name).expect("it was made");
            assert_eq!(get(&family, &["k1", "k2"][..want.len()]), some(want), "{name}");
            assert_eq!(family.estimate_keys(), Ok(want.len() as u64), "{name}");
        }
        assert!(db.family("other").is_none());
    };
    check(&db);
    drop(db);
    check(&open(&folder));
}

#[test]
fn making_a_family_twice_gives_the_one_there_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(folder.path());
    put(&db, "rows", &[("k", "v")]);
    assert_eq!(get(&db.create_family("rows").expect("a family"), &["k"]), some(&["v"]));
    assert_eq!(db.family_names(), ["default", "rows"]);
}

#[test]
fn a_dropped_family_is_read_by_whoever_has_it_and_gone_for_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(folder.path());
    put(&db, "rows", &[("k", "v")]);
    let family = db.family("rows").expect("it was made");
    let rows = family.iterate(None);
    db.drop_family("rows").expect("a disk");
    assert!(db.family("rows").is_none());
    assert_eq!(get(&family, &["k"]), some(&["v"]));
    let mut batch = db.write_batch();
    batch.put(&family, b"k", b"w").expect("it fits");
    let error = batch.write(Durability::Wal).expect_err("the family is gone");
    assert!(matches!(error, RocksError::InvalidArgument(_)), "{error:?}");
    drop((batch, family));
    assert_eq!(rest(rows), [(b"k".to_vec(), b"v".to_vec())]);

    put(&db, "rows", &[("l", "w")]);
    assert_eq!(get(&db.family("rows").expect("it is new"), &["k", "l"])[0], None);
    drop(db);
    assert_eq!(open(folder.path()).family_names(), ["default", "rows"]);
}

#[test]
fn families_that_cannot_be_made_or_dropped_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(folder.path());
    for error in [
        db.create_family("a\0b").err(),
        db.drop_family("none").err(),
        db.drop_family("default").err(),
    ] {
        assert!(matches!(error, Some(RocksError::InvalidArgument(_))), "{error:?}");
    }
    assert_eq!(db.family_names(), ["default"]);
}

#[test]
fn families_come_and_go_while_others_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(folder.path());
    put(&db, "rows", &[("k1", "v1"), ("k2", "v2")]);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        let family = db.family("rows").expect("it stays");
                        assert_eq!(get(&family, &["k1", "k2"]), some(&["v1", "v2"]));
                        assert!(rest(family.iterate(None)).len() >= 2);
                        for name in db.family_names() {
                            // It may be gone by now.
                            if let Some(family) = db.family(&name) {
                                get(&family, &["k1"]);
                            }
                        }
                    }
                })
            })
            .collect();
        for round in 0..20 {
            put(&db, &format!("new{round}"), &[("k1", "n")]);
            put(&db, "rows", &[("k3", "v3")]);
            if round % 2 == 0 {
                db.drop_family(&format!("new{round}")).expect("a disk");
            }
        }
        is_done.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().expect("no reader fails");
        }
    });
    assert_eq!(db.family_names().len(), 12);
}

#[test]
fn writes_to_families_that_are_dropped_meanwhile_stop_no_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(folder.path());
    std::thread::scope(|scope| {
        for _ in 0..20 {
            let family = db.create_family("rows").expect("a family");
            let db = &db;
            let writer = scope.spawn(move || {
                let mut batch = db.write_batch();
                batch.put(&family, b"k", b"v").expect("it fits");
                // Ends with the first write after the family was dropped.
                std::iter::from_fn(|| Some(batch.write(Durability::Wal))).find_map(Result::err)
            });
            put(db, "others", &[("k", "v")]);
            db.drop_family("rows").expect("a disk");
            let error = writer.join().expect("the writer ends");
            assert!(matches!(error, Some(RocksError::InvalidArgument(_))), "{error:?}");
        }
    });
    put(&db, "others", &[("l", "w")]);
    let others = db.family("others").expect("it was made");
    assert_eq!(get(&others, &["k", "l"]), some(&["v", "w"]));
}
