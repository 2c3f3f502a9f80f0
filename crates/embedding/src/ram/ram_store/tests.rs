//! What overflows, by every policy, and how much memory rows take.

use std::collections::BTreeSet;

use super::*;

fn store(dim: usize, partitions: u32, overflow: OverflowConfig) -> RamStore {
    let rule = PartitionRule::Mix;
    RamStore::new(RamStoreConfig { dim, partitions, rule, overflow, expected_rows: 1 << 20 })
}

fn unbounded() -> OverflowConfig {
    OverflowConfig { margin: u64::MAX, policy: OverflowPolicy::EvictRandom, target: 0.8 }
}

fn put(store: &RamStore, keys: impl IntoIterator<Item = i64>) {
    let keys: Vec<i64> = keys.into_iter().collect();
    let rows: Vec<f32> = keys.iter().map(|key| *key as f32).collect();
    store.put_many(&keys, &rows).unwrap();
}

fn keys_of(store: &RamStore) -> BTreeSet<i64> {
    let mut keys = BTreeSet::new();
    let mut each = |batch: &[i64], rows: &[f32]| {
        assert!(batch.iter().zip(rows).all(|(key, row)| *key as f32 == *row));
        keys.extend(batch);
        Ok(())
    };
    store.scan(100, &mut each).unwrap();
    keys
}

fn ask(store: &RamStore, keys: &[i64]) {
    let (mut rows, mut found) = (vec![0.0; keys.len()], vec![false; keys.len()]);
    store.get_many(keys, &mut rows, &mut found).unwrap();
    assert!(found.iter().all(|found| *found));
}

#[test]
fn a_partition_overflows_exactly_to_its_target() {
    let policies =
        [OverflowPolicy::EvictRandom, OverflowPolicy::EvictOldest, OverflowPolicy::EvictLeastUsed];
    for policy in policies {
        for (margin, target, left) in [(10, 0.8, 8), (10, 0.55, 5), (1, 0.5, 0), (300, 0.999, 299)]
        {
            let store = store(1, 1, OverflowConfig { margin, policy, target });
            put(&store, 0..margin as i64);
            assert_eq!(store.count(), Ok(margin), "not more than it may have");
            put(&store, [1_000]);
            assert_eq!(store.count(), Ok(left), "{policy:?} {margin} {target}");
            assert_eq!(keys_of(&store).len() as u64, left);
        }
    }
}

#[test]
fn a_batch_larger_than_a_partition_leaves_what_it_may_have() {
    let policy = OverflowPolicy::EvictOldest;
    let store = store(1, 3, OverflowConfig { margin: 100, policy, target: 0.5 });
    put(&store, 0..10_000);
    assert!((150..=300).contains(&store.count().unwrap()), "{:?}", store.count());
}

#[test]
fn the_oldest_leave_and_a_look_up_makes_young() {
    let policy = OverflowPolicy::EvictOldest;
    let store = store(1, 1, OverflowConfig { margin: 10, policy, target: 0.5 });
    (0..10).for_each(|key| put(&store, [key]));
    ask(&store, &[0, 3]);
    put(&store, [10]);
    assert_eq!(keys_of(&store), BTreeSet::from([0, 3, 8, 9, 10]));
}

#[test]
fn the_least_used_leave_and_old_counts_fade() {
    let policy = OverflowPolicy::EvictLeastUsed;
    let store = store(1, 1, OverflowConfig { margin: 4, policy, target: 0.75 });
    put(&store, 0..4);
    (0..8).for_each(|_| ask(&store, &[0]));
    (0..4).for_each(|_| ask(&store, &[1, 2]));
    put(&store, [4]);
    assert_eq!(keys_of(&store), BTreeSet::from([0, 1, 2]));
    // 0 has 4 uses left, 1 and 2 have 2.
    put(&store, [5]);
    (0..3).for_each(|_| ask(&store, &[5]));
    ask(&store, &[1]);
    put(&store, [6]);
    assert_eq!(keys_of(&store), BTreeSet::from([0, 1, 5]));
}

#[test]
fn an_old_use_stays_old_when_the_clock_comes_round() {
    let policy = OverflowPolicy::EvictOldest;
    let store = store(1, 1, OverflowConfig { margin: 3, policy, target: 0.67 });
    put(&store, [1]);
    for quarter in 1..=4u32 {
        store.clock.store(quarter.wrapping_mul(AGING_CALLS).wrapping_sub(1), Ordering::Relaxed);
        put(&store, [2]);
    }
    put(&store, [3]);
    put(&store, [4]);
    assert_eq!(keys_of(&store), BTreeSet::from([3, 4]));
}

#[test]
fn memory_is_at_most_three_tenths_more_than_the_data_and_what_was_predicted() {
    for (dim, step) in [(16, 20_000), (64, 10_000)] {
        for overflow in [
            unbounded(),
            OverflowConfig { margin: 1 << 40, policy: OverflowPolicy::EvictOldest, target: 0.8 },
        ] {
            let rows = 600_000u64;
            let config = RamStoreConfig {
                dim,
                partitions: 4,
                rule: PartitionRule::Mix,
                overflow: overflow.clone(),
                expected_rows: rows,
            };
            let store = RamStore::new(config.clone());
            for start in (0..rows as i64).step_by(step) {
                let keys: Vec<i64> = (start..start + step as i64).collect();
                store.put_many(&keys, &vec![1.0; keys.len() * dim]).unwrap();
                let (count, bytes) = (store.count().unwrap(), store.bytes() as u64);
                let data = count as usize * (8 + 4 * dim);
                let share = bytes as f64 / data as f64;
                assert!(share <= 1.3, "{dim}: {share} at {start}");
                let most = config.bytes_most(count);
                assert!(bytes <= most && most as f64 <= 1.2 * bytes as f64, "{bytes}, {most}");
            }
        }
    }
}
