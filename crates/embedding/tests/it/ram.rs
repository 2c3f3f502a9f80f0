//! The level in memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use terrace_embedding::{
    OverflowConfig, OverflowPolicy, PartitionRule, RamStore, RamStoreConfig, RowStore,
};

use crate::store_history::StoreHistory;

fn store(dim: usize, partitions: u32, expected_rows: u64) -> RamStore {
    let overflow =
        OverflowConfig { margin: u64::MAX, policy: OverflowPolicy::EvictRandom, target: 0.8 };
    let rule = if partitions == 3 { PartitionRule::Modulo } else { PartitionRule::Mix };
    RamStore::new(RamStoreConfig { dim, partitions, rule, overflow, expected_rows })
}

#[test]
fn histories_agree_with_a_map() {
    for seed in 0..20 {
        for (dim, partitions, expected_rows) in [(1, 1, 0), (5, 3, 1 << 20), (16, 16, 1 << 30)] {
            let store = store(dim, partitions, expected_rows);
            StoreHistory::new(seed, dim, true).run(&store, 300);
        }
    }
}

#[test]
fn many_rows_come_and_go() {
    let store = store(3, 2, 0);
    let keys: Vec<i64> = (0..50_000).map(|key| key * 7 - 100_000).collect();
    let rows: Vec<f32> = keys.iter().flat_map(|key| [*key as f32; 3]).collect();
    store.put_many(&keys, &rows).unwrap();
    store.remove_many(&keys[10_000..40_000]).unwrap();
    store.add_many(&keys[5_000..20_000], &vec![1.0; 45_000]).unwrap();
    let (mut found_rows, mut found) = (vec![0.0; rows.len()], vec![false; keys.len()]);
    store.get_many(&keys, &mut found_rows, &mut found).unwrap();
    for (index, key) in keys.iter().enumerate() {
        let want = match index {
            10_000..20_000 => Some(1.0),
            20_000..40_000 => None,
            _ => Some(*key as f32),
        };
        assert_eq!(found[index], want.is_some(), "{index}");
        assert_eq!(found_rows[3 * index..][..3], [want.unwrap_or(0.0); 3], "{index}");
    }
    assert_eq!(store.count(), Ok(30_000));
}

/// Whatever is written and evicted beside a look-up, a row is all of one version.
#[test]
fn a_row_is_never_half_written() {
    const DIM: usize = 64;
    let overflow = OverflowConfig { margin: 400, policy: OverflowPolicy::EvictOldest, target: 0.5 };
    let (rule, expected_rows) = (PartitionRule::Mix, 0);
    let config = RamStoreConfig { dim: DIM, partitions: 2, rule, overflow, expected_rows };
    let (store, is_over) = (RamStore::new(config), AtomicBool::new(false));
    let keys: Vec<i64> = (0..1_000).collect();
    thread::scope(|scope| {
        for writer in 0..2 {
            let (store, keys, is_over) = (&store, &keys, &is_over);
            scope.spawn(move || {
                for version in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let number = |key: &i64| (*key * 64 + (version * 2 + writer) % 64) as f32;
                    let rows: Vec<f32> = keys.iter().flat_map(|key| [number(key); DIM]).collect();
                    store.put_many(keys, &rows).unwrap();
                }
            });
        }
        let mut hits = 0;
        while hits < 1_000_000 {
            let (mut rows, mut found) = (vec![0.0; keys.len() * DIM], vec![false; keys.len()]);
            store.get_many(&keys, &mut rows, &mut found).unwrap();
            for (key, row) in keys.iter().zip(rows.chunks_exact(DIM)) {
                if found[*key as usize] {
                    hits += 1;
                    let is_own = row[0] as i64 / 64 == *key;
                    assert!(is_own && row.iter().all(|number| *number == row[0]), "{row:?}");
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
