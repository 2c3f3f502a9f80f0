//! Batches, and what survives closing.

use terrace_rocksdb::{
    Durability, Family, FamilyIterator, RocksDb, RocksLibrary, SstWriter, WriteBatch,
};

use crate::databases::{get, open, some};

#[test]
fn a_batch_counts_its_changes_and_is_written_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(folder.path());
    let (a, b) = (db.create_family("a").expect("one"), db.create_family("b").expect("one"));
    let mut batch = db.write_batch();
    assert_eq!(batch.count(), 0);
    batch.write(Durability::Wal).expect("nothing to do");
    batch.put(&a, b"k", b"1").expect("it fits");
    batch.put(&a, b"k", b"2").expect("it fits");
    batch.put(&b, b"k", b"3").expect("it fits");
    batch.put(&b, b"l", b"").expect("it fits");
    batch.delete(&b, b"k").expect("it fits");
    batch.delete(&b, b"none").expect("it fits");
    assert_eq!(batch.count(), 6);
    assert_eq!(get(&a, &["k"]), [None], "nothing before it is written");
    batch.write(Durability::Wal).expect("a disk");
    let check = || {
        assert_eq!(get(&a, &["k"]), some(&["2"]));
        assert_eq!(get(&b, &["k", "l"]), [None, Some(String::new())]);
    };
    check();
    batch.clear();
    assert_eq!(batch.count(), 0);
    batch.write(Durability::Wal).expect("nothing to do");
    check();
}

#[test]
fn every_durability_survives_closing() {
    let folder = tempfile::tempdir().expect("a folder");
    let written = [("a", Durability::Wal), ("b", Durability::SyncedWal), ("c", Durability::None)];
    for (key, durability) in written {
        let db = open(folder.path());
        let family = db.family("default").expect("there is always one");
        let mut batch = db.write_batch();
        batch.put(&family, key.as_bytes(), key.as_bytes()).expect("it fits");
        batch.write(durability).expect("a disk");
        drop((batch, family));
        db.sync_wal().expect("a disk");
        db.close().expect("a disk");
    }
    let db = open(folder.path());
    let family = db.family("default").expect("there is always one");
    assert_eq!(get(&family, &["a", "b", "c"]), some(&["a", "b", "c"]));
}

#[test]
#[should_panic(expected = "of another database")]
fn a_batch_takes_no_family_of_another_database() {
    let folders = [(), ()].map(|()| tempfile::tempdir().expect("a folder"));
    let [one, other] = folders.each_ref().map(|folder| open(folder.path()));
    let family = other.family("default").expect("there is always one");
    let _ = one.write_batch().put(&family, b"k", b"v");
}

#[test]
fn threads_may_share_what_rocksdb_says_they_may() {
    fn is_sent<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    is_shared::<RocksLibrary>();
    is_shared::<RocksDb>();
    is_shared::<Family<'_>>();
    is_sent::<WriteBatch<'_>>();
    is_sent::<FamilyIterator<'_>>();
    is_sent::<SstWriter>();
}
