//! Where the keys of a sequence are cut for split-KV: at fixed positions.

use std::ops::Range;

use crate::attention::blocks::BLOCK_KEYS;

/// Some microseconds of work for one kv head.
pub(super) const SPLIT_KEYS: usize = 4 * BLOCK_KEYS;

/// A tile's keys, cut where splits end.
pub(super) fn splits(seen: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let first = seen.start / SPLIT_KEYS * SPLIT_KEYS;
    (first..seen.end).step_by(SPLIT_KEYS).map(move |start| {
        let inside = |position: usize| position.clamp(seen.start, seen.end);
        inside(start)..inside(start + SPLIT_KEYS)
    })
}
