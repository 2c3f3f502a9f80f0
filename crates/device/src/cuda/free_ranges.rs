//! Which bytes of an arena are free.

use std::collections::BTreeMap;

/// Ranges start and end at multiples of this.
const ALIGNMENT: usize = 256;

/// The free bytes of one block of memory; neighbours are one range.
pub(super) struct FreeRanges {
    /// Lengths by their starts.
    ranges: BTreeMap<usize, usize>,
}

impl FreeRanges {
    pub(super) fn of_block(bytes: usize) -> Self {
        let whole = bytes / ALIGNMENT * ALIGNMENT;
        FreeRanges { ranges: BTreeMap::from_iter((whole > 0).then_some((0, whole))) }
    }

    pub(super) fn free_bytes(&self) -> usize {
        self.ranges.values().sum()
    }

    /// Takes from the smallest range that is large enough; where the bytes start.
    pub(super) fn take(&mut self, bytes: usize) -> Option<usize> {
        let bytes = bytes.checked_next_multiple_of(ALIGNMENT)?;
        let fitting = self.ranges.iter().filter(|(_, length)| bytes <= **length);
        let (&start, &length) = fitting.min_by_key(|(_, length)| **length)?;
        self.ranges.remove(&start);
        if bytes < length {
            self.ranges.insert(start + bytes, length - bytes);
        }
        Some(start)
    }

    /// Gives back what `take` gave for so many bytes.
    pub(super) fn give_back(&mut self, start: usize, bytes: usize) {
        let (mut start, mut length) = (start, bytes.next_multiple_of(ALIGNMENT));
        if let Some(after) = self.ranges.remove(&(start + length)) {
            length += after;
        }
        if let Some((&before, &before_length)) = self.ranges.range(..start).next_back() {
            assert!(before + before_length <= start, "bytes at {start} were free already");
            if before + before_length == start {
                (start, length) = (before, before_length + length);
            }
        }
        self.ranges.insert(start, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_never_overlaps_and_all_comes_back() {
        let mut free = FreeRanges::of_block(100 * ALIGNMENT + 3);
        let mut taken: Vec<(usize, usize)> = Vec::new();
        let mut state = 7_usize;
        for _ in 0..10_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let drawn = state >> 33;
            if drawn.is_multiple_of(3) && !taken.is_empty() {
                let (start, bytes) = taken.swap_remove(drawn / 3 % taken.len());
                free.give_back(start, bytes);
            } else if let Some(start) = free.take(1 + drawn % (9 * ALIGNMENT)) {
                taken.push((start, 1 + drawn % (9 * ALIGNMENT)));
            }
            let mut ends: Vec<_> =
                taken.iter().map(|&(start, bytes)| (start, start + bytes)).collect();
            ends.sort_unstable();
            assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{ends:?}");
            assert!(ends.last().is_none_or(|last| last.1 <= 100 * ALIGNMENT), "{ends:?}");
            let held: usize =
                taken.iter().map(|(_, bytes)| bytes.next_multiple_of(ALIGNMENT)).sum();
            assert_eq!(held + free.free_bytes(), 100 * ALIGNMENT);
        }
        taken.drain(..).for_each(|(start, bytes)| free.give_back(start, bytes));
        assert_eq!(free.take(100 * ALIGNMENT), Some(0), "the block is whole again");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut free = FreeRanges::of_block(4 * ALIGNMENT);
        assert_eq!(free.take(usize::MAX), None);
        assert_eq!(free.take(4 * ALIGNMENT + 1), None);
        assert_eq!(free.take(3 * ALIGNMENT), Some(0));
        assert_eq!(free.take(2 * ALIGNMENT), None);
        assert_eq!(free.take(1), Some(3 * ALIGNMENT));
        assert_eq!(free.free_bytes(), 0);
    }
}
