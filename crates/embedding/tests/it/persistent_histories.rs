//! Random histories of persistent stores, with restarts in between.

use terrace_embedding::KeyKind;

use crate::persistent_stores::{KINDS, Kind, open, spec};
use crate::store_history::StoreHistory;

#[track_caller]
fn check(kind: Kind, seed: u64, key_kind: KeyKind, dim: usize, steps: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let spec = spec("t", key_kind, dim);
    let mut history = StoreHistory::new(seed, dim, key_kind == KeyKind::I64);
    for restart in 0..4 {
        let database = open(kind, folder.path());
        let store = database.table(&spec).expect("a table");
        assert_eq!(store.name(), kind.name());
        if restart > 0 {
            // What was there before the restart is there now.
            history.run(&*store, 0);
        }
        history.run(&*store, steps);
        if restart % 2 == 0 {
            store.sync().expect("a disk");
        }
    }
}

#[test]
fn histories_agree_with_a_map_over_restarts() {
    for kind in KINDS {
        for seed in 0..3 {
            for (key_kind, dim) in [(KeyKind::I64, 5), (KeyKind::U32, 1), (KeyKind::I64, 64)] {
                check(kind, seed, key_kind, dim, 60);
            }
        }
    }
}

/// Rows of 160 kB, of which a few are a batch that is loaded past log and memory.
#[test]
fn histories_with_batches_that_become_files_agree_with_a_map() {
    for kind in KINDS {
        for (seed, key_kind) in [(7, KeyKind::I64), (8, KeyKind::U32)] {
            check(kind, seed, key_kind, 40_000, 8);
        }
    }
}
