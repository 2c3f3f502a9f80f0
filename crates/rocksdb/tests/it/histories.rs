//! Random histories of a database against a map.

use std::collections::BTreeMap;

use proptest::prelude::*;
use terrace_rocksdb::{Durability, RocksDb};

use crate::databases::{open, rest};

const FAMILIES: [&str; 2] = ["users", "items"];
const KEYS: u8 = 20;

#[derive(Clone, Debug)]
enum Step {
    /// Together: family, key, and the value or that it is deleted.
    Write(Vec<(usize, u8, Option<Vec<u8>>)>),
    Flush(usize),
    Compact(usize),
    /// The family comes back empty.
    Drop(usize),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let value = prop::option::weighted(0.7, prop::collection::vec(any::<u8>(), 0..40));
    let write = prop::collection::vec((0..FAMILIES.len(), 0..KEYS, value), 1..12);
    let step = prop_oneof![
        8 => write.prop_map(Step::Write),
        2 => (0..FAMILIES.len()).prop_map(Step::Flush),
        1 => (0..FAMILIES.len()).prop_map(Step::Compact),
        1 => (0..FAMILIES.len()).prop_map(Step::Drop),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..24)
}

type Model = [BTreeMap<u8, Vec<u8>>; FAMILIES.len()];

fn write(db: &RocksDb, model: &mut Model, changes: Vec<(usize, u8, Option<Vec<u8>>)>) {
    let mut batch = db.write_batch();
    for (index, key, value) in changes {
        let family = db.create_family(FAMILIES[index]).expect("a family");
        match value {
            Some(value) => {
                batch.put(&family, &[key], &value).expect("it fits");
                model[index].insert(key, value);
            }
            None => {
                batch.delete(&family, &[key]).expect("it fits");
                model[index].remove(&key);
            }
        }
    }
    batch.write(Durability::Wal).expect("a disk");
}

fn check(db: &RocksDb, model: &Model) {
    for (name, want) in FAMILIES.iter().zip(model) {
        let Some(family) = db.family(name) else {
            assert!(want.is_empty(), "{name} is gone");
            continue;
        };
        let keys: Vec<u8> = (0..KEYS).rev().collect();
        let mut found = BTreeMap::new();
        let add = &mut |index: usize, value: &[u8]| {
            found.insert(keys[index], value.to_owned());
        };
        family.multi_get(&keys, 1, add).expect("a disk");
        assert_eq!(&found, want, "{name}, looked up");
        let rows = rest(family.iterate(None));
        let rows: BTreeMap<_, _> = rows.into_iter().map(|(key, value)| (key[0], value)).collect();
        assert_eq!(&rows, want, "{name}, in order");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_database_is_a_map_for_each_family(steps in steps()) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut db = open(folder.path());
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Write(changes) => write(&db, &mut model, changes),
                Step::Flush(family) => {
                    db.create_family(FAMILIES[family]).expect("one").flush().expect("a disk");
                }
                Step::Compact(family) => {
                    db.create_family(FAMILIES[family]).expect("one").compact().expect("a disk");
                }
                Step::Drop(family) => {
                    db.create_family(FAMILIES[family]).expect("one");
                    db.drop_family(FAMILIES[family]).expect("a disk");
                    model[family].clear();
                }
                Step::Reopen => {
                    db.close().expect("a disk");
                    db = open(folder.path());
                }
            }
            check(&db, &model);
        }
    }
}
