//! A hot set, and a long scan between its uses: which rule keeps it.

use crate::placement::{Placement, PlacementRule, Retention};

const CAPACITY: usize = 200;
const HOT: u64 = 100;
const SCANNED: u64 = 20_000;

/// Returns whether it was a hit.
fn request(level: &mut Placement<u64>, content: u64) -> bool {
    if level.contains(content) {
        level.hold(content);
        level.release(content);
        return true;
    }
    if level.len() == CAPACITY {
        if !level.admits(content, Retention::default(), 0) {
            return false;
        }
        let victim = level.victim(0).expect("all are idle");
        level.remove(victim);
    }
    level.add(content, content, Retention::default());
    false
}

/// Hits of the hot set, in percent, while contents that never come again pass by, three for each
/// use of a hot one: between two uses of the same lie more contents than the level has entries.
fn hot_hits(rule: PlacementRule) -> u64 {
    let mut level = Placement::new(rule, CAPACITY);
    for content in (0..HOT).chain(0..HOT) {
        request(&mut level, content);
    }
    let (mut hits, mut uses) = (0, 0);
    for scanned in 0..SCANNED {
        request(&mut level, HOT + scanned);
        if scanned % 3 == 0 {
            hits += u64::from(request(&mut level, uses % HOT));
            uses += 1;
        }
    }
    level.check();
    hits * 100 / uses
}

#[test]
fn lru_loses_a_hot_set_to_a_scan() {
    assert_eq!(hot_hits(PlacementRule::Lru), 0);
}

#[test]
fn lfu_keeps_a_hot_set_through_a_scan() {
    let hits = hot_hits(PlacementRule::TinyLfu);
    assert!(95 <= hits, "{hits} percent");
}

#[test]
fn arc_keeps_a_hot_set_through_a_scan() {
    let hits = hot_hits(PlacementRule::Arc);
    assert!(95 <= hits, "{hits} percent");
}
