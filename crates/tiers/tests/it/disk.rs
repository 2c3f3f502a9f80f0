//! The disk tier in operation: what it keeps, what it gives up, and that its budget holds.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use tempfile::TempDir;
use terrace_cache::placement::PlacementRule;
use terrace_testkit::Rng;
use terrace_tiers::{DiskTier, DiskTierConfig, PageTier, TierRetention};

use crate::pages::{RECORD_BYTES, get, key, keys, put, put_with};

/// What a record takes: three blocks and its entry.
pub const FRAME_BYTES: u64 = 3 * 4096 + 64;
pub const HEADER_BYTES: u64 = 64;

pub fn config(folder: &Path, frames: u64) -> DiskTierConfig {
    DiskTierConfig {
        folder: folder.to_owned(),
        budget_bytes: HEADER_BYTES + frames * FRAME_BYTES,
        record_bytes: RECORD_BYTES,
        placement: PlacementRule::Lru,
    }
}

pub fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Of all files in a folder.
pub fn bytes_in(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).expect("a folder");
    files.map(|file| file.expect("a file").metadata().expect("its length").len()).sum()
}

#[test]
fn what_was_put_is_there_after_a_restart() {
    let folder = folder();
    let tier = DiskTier::open(config(folder.path(), 8)).expect("a tier");
    let stored = put(&tier, &[1, 2, 3]).expect("a disk");
    assert_eq!((stored.kept, stored.evicted), (vec![true; 3], vec![]));
    assert_eq!(get(&tier, &[3, 9, 1]).expect("a disk"), [true, false, true]);
    assert_eq!(tier.contains_many(&keys([2, 4])).expect("a disk"), [true, false]);
    tier.remove_many(&keys([1, 7])).expect("a disk");
    drop(tier);
    let tier = DiskTier::open(config(folder.path(), 8)).expect("a tier");
    assert_eq!(get(&tier, &[1, 2, 3]).expect("a disk"), [false, true, true]);
    let listed: BTreeSet<_> = tier.listed().expect("its own").into_iter().collect();
    assert_eq!(listed, keys([2, 3]).into_iter().collect());
    assert_eq!(tier.usage().records, Some(2));
    tier.check();
}

/// Also their bytes, which nobody finds in a file any more.
#[test]
fn what_begins_so_is_erased() {
    let folder = folder();
    let tier = DiskTier::open(config(folder.path(), 8)).expect("a tier");
    put(&tier, &[1, 2, 3]).expect("a disk");
    let has_bytes = |page: u64| {
        let files = std::fs::read_dir(folder.path()).expect("a folder").flatten();
        let mut files = files.filter_map(|file| std::fs::read(file.path()).ok());
        let bytes = crate::pages::page(page);
        files.any(|file| file.windows(bytes.len()).any(|window| window == bytes))
    };
    assert!(has_bytes(2));
    assert_eq!(tier.remove_prefix(&keys([2])[0].as_bytes()[..16]).expect("a disk"), 1);
    assert_eq!(get(&tier, &[1, 2, 3]).expect("a disk"), [true, false, true]);
    assert!(!has_bytes(2) && has_bytes(3));
    assert_eq!(tier.remove_prefix(&[]).expect("a disk"), 2);
    tier.check();
    drop(tier);
    let tier = DiskTier::open(config(folder.path(), 8)).expect("a tier");
    assert_eq!(get(&tier, &[1, 2, 3]).expect("a disk"), [false; 3]);
}

#[test]
fn the_longest_unused_leaves_first_also_after_a_restart() {
    let folder = folder();
    let tier = DiskTier::open(config(folder.path(), 3)).expect("a tier");
    for page in 1..=3 {
        put(&tier, &[page]).expect("a disk");
    }
    get(&tier, &[1]).expect("a disk");
    assert_eq!(put(&tier, &[4]).expect("a disk").evicted, [key(2)]);
    drop(tier);
    let tier = DiskTier::open(config(folder.path(), 3)).expect("a tier");
    // What was read is not written down: the order is that of writing.
    assert_eq!(put(&tier, &[5]).expect("a disk").evicted, [key(1)]);
}

#[test]
fn priority_and_expiry_survive_a_restart_and_are_raised_by_a_later_put() {
    let folder = folder();
    let retention = |priority, ttl_ms| TierRetention { priority, ttl_ms };
    let tier = DiskTier::open(config(folder.path(), 3)).expect("a tier");
    put_with(&tier, &[1], retention(10, None)).expect("a disk");
    put_with(&tier, &[2], retention(20, None)).expect("a disk");
    put_with(&tier, &[3], retention(90, Some(0))).expect("a disk");
    put_with(&tier, &[1], retention(80, None)).expect("a disk");
    drop(tier);
    let tier = DiskTier::open(config(folder.path(), 3)).expect("a tier");
    let stored = put_with(&tier, &[4], retention(30, None)).expect("a disk");
    assert_eq!(stored.evicted, [key(3)], "what has expired leaves first");
    let stored = put_with(&tier, &[5], retention(15, None)).expect("a disk");
    assert_eq!((stored.kept, stored.evicted), (vec![false], vec![]), "worth less than all");
    let stored = put_with(&tier, &[5], retention(30, None)).expect("a disk");
    assert_eq!((stored.kept, stored.evicted), (vec![true], vec![key(2)]));
}

#[test]
fn a_batch_larger_than_the_budget_keeps_what_fits() {
    let folder = folder();
    let tier = DiskTier::open(config(folder.path(), 3)).expect("a tier");
    let stored = put(&tier, &[1, 2, 3, 4, 5]).expect("a disk");
    assert_eq!(stored.kept, [true, true, true, false, false]);
    assert_eq!(get(&tier, &[1, 2, 3, 4, 5]).expect("a disk"), stored.kept);
}

#[test]
fn bytes_that_others_need_come_out_of_the_same_budget() {
    let folder = folder();
    let tier = DiskTier::open(config(folder.path(), 4)).expect("a tier");
    for page in 1..=4 {
        put(&tier, &[page]).expect("a disk");
    }
    assert_eq!(tier.set_reserved_bytes(FRAME_BYTES + 1).expect("a disk"), keys([3, 4]));
    assert!(bytes_in(folder.path()) <= HEADER_BYTES + 2 * FRAME_BYTES);
    assert_eq!(put(&tier, &[5]).expect("a disk").evicted, keys([1]));
    tier.set_reserved_bytes(0).expect("a disk");
    assert_eq!(put(&tier, &[6, 7]).expect("a disk").evicted, []);
    tier.set_reserved_bytes(u64::MAX).expect("a disk");
    assert_eq!(put(&tier, &[8]).expect("a disk").kept, [false]);
    assert_eq!(bytes_in(folder.path()), HEADER_BYTES);
    tier.check();
}

/// Models whose pages have other sizes lie in files of their own.
#[test]
fn page_files_of_other_sizes_go_when_room_is_needed_the_longest_unused_first() {
    let folder = folder();
    let of_bytes = |record_bytes: usize| DiskTierConfig {
        record_bytes,
        budget_bytes: HEADER_BYTES + 6 * FRAME_BYTES,
        ..config(folder.path(), 0)
    };
    let name = |bytes: usize| folder.path().join(format!("pages-{bytes}.frames"));
    for record_bytes in [1000, 2000] {
        let tier = DiskTier::open(of_bytes(record_bytes)).expect("a tier");
        let bytes = vec![0; record_bytes];
        let retention = TierRetention::default();
        let record = terrace_tiers::TierRecord { key: key(1), bytes: &bytes, retention };
        assert_eq!(tier.put_many(&[record]).expect("a disk").kept, [true]);
    }
    let tier = DiskTier::open(of_bytes(RECORD_BYTES)).expect("a tier");
    put(&tier, &[1, 2, 3, 4, 5]).expect("a disk");
    assert!(name(1000).exists() && name(2000).exists(), "there is room for all");
    put(&tier, &[6]).expect("a disk");
    assert!(!name(1000).exists() && !name(2000).exists(), "no room for either");
    assert!(get(&tier, &[1, 2, 3, 4, 5, 6]).expect("a disk").into_iter().all(|found| found));
    drop(tier);
    DiskTier::open(DiskTierConfig { budget_bytes: 2 * FRAME_BYTES, ..of_bytes(1000) })
        .expect("a tier");
    assert!(!name(RECORD_BYTES).exists(), "it is larger than the new budget");
}

#[test]
fn a_smaller_budget_gives_up_what_is_behind_it() {
    let folder = folder();
    let tier = DiskTier::open(config(folder.path(), 6)).expect("a tier");
    put(&tier, &[1, 2, 3, 4, 5, 6]).expect("a disk");
    drop(tier);
    let tier = DiskTier::open(config(folder.path(), 2)).expect("a tier");
    assert!(bytes_in(folder.path()) <= HEADER_BYTES + 2 * FRAME_BYTES);
    assert_eq!(tier.usage().records, Some(2));
    tier.check();
}

/// Several threads put, get and remove at once; what is given is always right, and at the end the
/// books agree.
#[test]
fn threads_do_not_see_each_others_half_written_pages() {
    let folder = folder();
    let tier = DiskTier::open(config(folder.path(), 12)).expect("a tier");
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|seed| {
                let (tier, ends) = (&tier, &ends);
                scope.spawn(move || {
                    let mut rng = Rng::new(seed);
                    while !ends.load(Ordering::Relaxed) {
                        let pages: Vec<_> = (0..6).map(|_| rng.below(24) as u64).collect();
                        get(tier, &pages).expect("a disk");
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (10..12)
            .map(|seed| {
                let tier = &tier;
                scope.spawn(move || {
                    let mut rng = Rng::new(seed);
                    for _ in 0..150 {
                        let pages: Vec<_> = (0..4).map(|_| rng.below(24) as u64).collect();
                        put(tier, &pages).expect("a disk");
                        tier.remove_many(&keys([rng.below(24) as u64])).expect("a disk");
                        tier.set_reserved_bytes(rng.below(4) as u64 * FRAME_BYTES).expect("a disk");
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
        ends.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().expect("a reader"));
    });
    tier.check();
    assert!(bytes_in(folder.path()) <= config(folder.path(), 12).budget_bytes);
}

#[derive(Clone, Debug)]
enum Op {
    Put(Vec<u64>),
    Get(Vec<u64>),
    Remove(Vec<u64>),
    Restart,
}

fn ops() -> impl Strategy<Value = Op> {
    let pages = || prop::collection::vec(0u64..10, 1..5);
    prop_oneof![
        4 => pages().prop_map(Op::Put),
        3 => pages().prop_map(Op::Get),
        1 => pages().prop_map(Op::Remove),
        1 => Just(Op::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// The model is the set of pages that are there; the tier says itself who left.
    #[test]
    fn it_has_exactly_what_it_said_it_keeps(
        ops in prop::collection::vec(ops(), 1..30),
        frames in 1u64..7,
    ) {
        let folder = folder();
        let mut tier = Some(DiskTier::open(config(folder.path(), frames)).expect("a tier"));
        let mut model = BTreeSet::new();
        for op in ops {
            let now = tier.as_ref().expect("open");
            match op {
                Op::Put(pages) => {
                    let stored = put(now, &pages).expect("a disk");
                    for gone in &stored.evicted {
                        prop_assert!(model.remove(gone), "it was not there");
                    }
                    let kept = pages.iter().zip(&stored.kept).filter(|kept| *kept.1);
                    model.extend(kept.map(|(page, _)| key(*page)));
                }
                Op::Get(pages) => {
                    let want = pages.iter().map(|&page| model.contains(&key(page)));
                    let want: Vec<_> = want.collect();
                    prop_assert_eq!(get(now, &pages).expect("a disk"), want);
                }
                Op::Remove(pages) => {
                    now.remove_many(&keys(pages.clone())).expect("a disk");
                    pages.iter().for_each(|&page| { model.remove(&key(page)); });
                }
                Op::Restart => {
                    drop(tier.take());
                    tier = Some(DiskTier::open(config(folder.path(), frames)).expect("a tier"));
                }
            }
            let now = tier.as_ref().expect("open");
            now.check();
            let listed: BTreeSet<_> = now.listed().expect("its own").into_iter().collect();
            prop_assert_eq!(&listed, &model);
            let used = now.usage().used_bytes.expect("it knows");
            prop_assert!(bytes_in(folder.path()) <= used);
            prop_assert!(used <= HEADER_BYTES + frames * FRAME_BYTES);
        }
    }
}
