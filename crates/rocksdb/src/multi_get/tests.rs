//! The two ways of looking keys up give the same.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::CALL_KEYS;
use crate::{Durability, Family, RocksDb, RocksError, RocksLibrary, RocksOptions};

/// The whole library, and as an old one has it.
fn libraries() -> [Arc<RocksLibrary>; 2] {
    let libraries = [RocksLibrary::load(&[]), RocksLibrary::load_required_only()];
    let libraries = libraries.map(|library| library.unwrap_or_else(|error| panic!("{error}")));
    assert!(libraries[0].functions().batched_multi_get_cf.is_some(), "RocksDB 7 or newer");
    libraries
}

fn open(library: &Arc<RocksLibrary>, folder: &Path) -> RocksDb {
    RocksDb::open(library, folder, &RocksOptions::default()).expect("a database")
}

fn found(family: &Family<'_>, keys: &[u16]) -> (Vec<Option<Vec<u8>>>, Result<(), RocksError>) {
    let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_be_bytes()).collect();
    let mut values = vec![None; keys.len()];
    let result = family.multi_get(&bytes, 2, &mut |index, value| {
        assert!(values[index].replace(value.to_owned()).is_none(), "{index} is found twice");
    });
    (values, result)
}

/// Even keys below 4096, the value as long as the key is large, so the first is empty.
fn fill(db: &RocksDb) {
    let family = db.create_family("rows").expect("a family");
    let mut batch = db.write_batch();
    for key in (0..4096u16).step_by(2) {
        batch.put(&family, &key.to_be_bytes(), &value_of(key)).expect("it fits");
    }
    batch.write(Durability::Wal).expect("a disk");
}

fn value_of(key: u16) -> Vec<u8> {
    vec![key as u8; usize::from(key)]
}

fn want(keys: &[u16]) -> Vec<Option<Vec<u8>>> {
    let is_there = |key: u16| key < 4096 && key.is_multiple_of(2);
    keys.iter().map(|&key| is_there(key).then(|| value_of(key))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn both_ways_find_the_same_keys(
        mut keys in prop::collection::vec(0..5000u16, 0..3 * CALL_KEYS),
        is_sorted in any::<bool>(),
        is_flushed in any::<bool>(),
    ) {
        if is_sorted {
            keys.sort_unstable();
        }
        let folder = tempfile::tempdir().expect("a folder");
        for (round, library) in libraries().iter().enumerate() {
            let db = open(library, folder.path());
            if round == 0 {
                fill(&db);
            }
            let family = db.family("rows").expect("it was made");
            if is_flushed {
                family.flush().expect("a disk");
            }
            let (values, result) = found(&family, &keys);
            prop_assert_eq!(values, want(&keys));
            prop_assert_eq!(result, Ok(()));
        }
    }
}

#[test]
fn keys_in_a_damaged_block_fail_and_the_others_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let [library, old_library] = libraries();
    let db = open(&library, folder.path());
    fill(&db);
    db.family("rows").expect("it was made").compact().expect("a disk");
    db.close().expect("a disk");
    damage_last_table(folder.path());

    let keys: Vec<_> = (0..4096).collect();
    let mut both = Vec::new();
    for library in [library, old_library] {
        let db = open(&library, folder.path());
        let (values, result) = found(&db.family("rows").expect("it was made"), &keys);
        assert!(matches!(result, Err(RocksError::Corruption(_))), "{result:?}");
        let lost = values.iter().zip(want(&keys)).filter(|(value, want)| *value != want).count();
        assert!((1..100).contains(&lost), "{lost} keys of one block");
        assert!(
            values
                .iter()
                .zip(want(&keys))
                .all(|(value, want)| { value.is_none() || *value == want })
        );
        both.push(values);
    }
    assert_eq!(both[0], both[1]);
}

/// Changes a byte in the middle of the first block.
fn damage_last_table(folder: &Path) {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let tables = paths.filter(|path| path.extension().is_some_and(|end| end == "sst"));
    let table = tables.max().expect("a table");
    let mut bytes = std::fs::read(&table).expect("a file");
    bytes[1000] ^= 1;
    std::fs::write(&table, bytes).expect("a file");
}

#[test]
fn an_old_library_keeps_no_log_in_memory_and_says_what_it_cannot() {
    let [_, library] = libraries();
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(&library, folder.path());
    fill(&db);
    assert_eq!(db.flush_wal(), Ok(()));
    let error = db.sync_wal().expect_err("it has no such function");
    assert!(error.to_string().contains("RocksDB 7.0 or newer"), "{error}");
    assert_eq!(db.close(), Ok(()));
}
