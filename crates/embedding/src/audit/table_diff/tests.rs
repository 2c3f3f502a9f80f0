//! What two versions differ in: each kind, repeated keys, and against a model of two maps.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::audit::AuditedRows;
use crate::config::{OverflowConfig, OverflowPolicy};
use crate::key_kind::KeyKind;
use crate::load::SparseFolder;
use crate::partition::PartitionRule;
use crate::ram::{RamStore, RamStoreConfig};
use crate::row_store::RowStore;

const DIM: usize = 2;

fn row(value: f32) -> [f32; DIM] {
    [value, 1.0]
}

fn of_store(rows: &[(i64, f32)]) -> RowDigests {
    let store = RamStore::new(RamStoreConfig {
        dim: DIM,
        partitions: 3,
        rule: PartitionRule::Mix,
        overflow: OverflowConfig {
            margin: u64::MAX,
            policy: OverflowPolicy::EvictRandom,
            target: 0.8,
        },
        expected_rows: 10,
    });
    let (keys, numbers): (Vec<i64>, Vec<[f32; DIM]>) =
        rows.iter().map(|(key, value)| (*key, row(*value))).unzip();
    store.put_many(&keys, &numbers.concat()).unwrap();
    RowDigests::read(AuditedRows::Level(&store), KeyKind::I64, DIM, &mut |_| ()).unwrap()
}

fn of_files(rows: &[(i64, f32)]) -> RowDigests {
    let folder = tempfile::tempdir().unwrap();
    let keys: Vec<u8> = rows.iter().flat_map(|(key, _)| key.to_le_bytes()).collect();
    let numbers = rows.iter().flat_map(|(_, value)| row(*value));
    let numbers: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
    std::fs::write(folder.path().join("key"), keys).unwrap();
    std::fs::write(folder.path().join("emb_vector"), numbers).unwrap();
    let folders = [SparseFolder::open(folder.path(), None).unwrap()];
    let mut read = 0;
    let digests = RowDigests::read(AuditedRows::Files(&folders), KeyKind::I64, DIM, &mut |rows| {
        read = rows;
    });
    assert_eq!(read, rows.len() as u64);
    digests.unwrap()
}

#[test]
fn each_kind_of_difference_is_counted_and_the_smallest_keys_are_named() {
    use KeyDifference::{Changed, OnlyInA, OnlyInB};
    let check = |a: &[(i64, f32)], b: &[(i64, f32)], want: TableDiff| {
        assert_eq!(TableDiff::between(&of_files(a), &of_store(b), 2), want, "{a:?} {b:?}");
    };
    check(&[(1, 0.5)], &[(1, 0.5)], TableDiff { equal: 1, ..TableDiff::default() });
    check(
        &[(7, 1.0), (-3, 1.0), (2, 1.0), (9, 1.0)],
        &[(2, 2.0), (i64::MAX, 1.0), (7, 1.0)],
        TableDiff {
            only_in_a: 2,
            only_in_b: 1,
            changed: 1,
            equal: 1,
            first: vec![(-3, OnlyInA), (2, Changed)],
        },
    );
    check(
        &[(1, f32::NAN), (2, 0.0)],
        &[(1, f32::NAN), (2, -0.0), (3, 1.0)],
        TableDiff {
            only_in_b: 1,
            changed: 1,
            equal: 1,
            first: vec![(2, Changed), (3, OnlyInB)],
            ..TableDiff::default()
        },
    );
}

#[test]
fn of_a_key_that_repeats_the_last_row_counts() {
    let repeated = of_files(&[(4, 1.0), (5, 1.0), (4, 2.0), (4, 3.0)]);
    assert_eq!(repeated.count(), 2);
    assert_eq!(TableDiff::between(&repeated, &of_files(&[(5, 1.0), (4, 3.0)]), 9).different(), 0);
    assert_eq!(TableDiff::between(&repeated, &of_files(&[(5, 1.0), (4, 1.0)]), 9).changed, 1);
}

proptest! {
    #[test]
    fn differences_are_those_of_two_maps(
        a in proptest::collection::vec((0i64..30, 0u8..3), 1..40),
        b in proptest::collection::vec((0i64..30, 0u8..3), 1..40),
    ) {
        let rows = |rows: &[(i64, u8)]| -> Vec<(i64, f32)> {
            rows.iter().map(|(key, value)| (*key, f32::from(*value))).collect()
        };
        let (a, b) = (rows(&a), rows(&b));
        let [in_a, in_b] = [&a, &b].map(|rows| rows.iter().copied().collect::<BTreeMap<_, _>>());
        let (of_a, of_b) = (of_files(&a), of_store(&b));
        let diff = TableDiff::between(&of_a, &of_b, usize::MAX);
        let both = in_a.iter().filter(|(key, _)| in_b.contains_key(key));
        let (equal, changed): (Vec<_>, Vec<_>) = both.partition(|(key, row)| in_b[key] == **row);
        prop_assert_eq!((diff.equal, diff.changed), (equal.len() as u64, changed.len() as u64));
        prop_assert_eq!(diff.only_in_a, in_a.len() as u64 - diff.equal - diff.changed);
        prop_assert_eq!(diff.only_in_b, in_b.len() as u64 - diff.equal - diff.changed);
        let news = in_b.iter().filter(|(key, row)| in_a.get(key) != Some(row));
        let news: Vec<i64> = news.map(|(key, _)| *key).collect();
        prop_assert_eq!(TableDiff::news(&of_a, &of_b), news);
        prop_assert_eq!(diff.first.len() as u64, diff.different());
    }
}
