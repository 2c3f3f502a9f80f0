//! The distinct keys of a call, by partition.
//!
//! Of a key that stands there several times one index is chosen, the first or the last: each key is
//! asked for and written once, so that no order among commands matters.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

pub(super) struct KeyGroups {
    /// Of distinct keys, sorted by partition.
    indices: Vec<u32>,
    /// Every partition that has a key here, with the end of its indices.
    ends: Vec<(u32, usize)>,
    /// Every other index of a key, with the one that was chosen.
    repeats: Vec<(u32, u32)>,
}

#[derive(Clone, Copy)]
pub(super) enum Keep {
    First,
    Last,
}

impl KeyGroups {
    /// Of the keys that `takes` names. `partition_of` gives less than `partitions`.
    pub(super) fn new(
        keys: &[i64],
        takes: impl Fn(usize) -> bool,
        keep: Keep,
        partitions: usize,
        partition_of: impl Fn(i64) -> u32,
    ) -> Self {
        assert!(u32::try_from(keys.len()).is_ok(), "{} keys in one call", keys.len());
        let mut chosen: HashMap<i64, u32> = HashMap::with_capacity(keys.len());
        // The chosen indices with their partitions, and how many each partition has.
        let (mut found, mut counts) = (Vec::with_capacity(keys.len()), vec![0; partitions]);
        let mut repeats = Vec::new();
        let mut take = |index: usize| {
            if !takes(index) {
                return;
            }
            match chosen.entry(keys[index]) {
                Entry::Occupied(entry) => repeats.push((index as u32, *entry.get())),
                Entry::Vacant(entry) => {
                    entry.insert(index as u32);
                    let partition = partition_of(keys[index]);
                    counts[partition as usize] += 1;
                    found.push((partition, index as u32));
                }
            }
        };
        match keep {
            Keep::First => (0..keys.len()).for_each(&mut take),
            Keep::Last => (0..keys.len()).rev().for_each(&mut take),
        }
        let mut ends = Vec::new();
        let mut start = 0;
        for (partition, count) in counts.iter_mut().enumerate() {
            let end = start + *count;
            if *count > 0 {
                ends.push((partition as u32, end));
            }
            // From here on where the partition's next index goes.
            *count = std::mem::replace(&mut start, end);
        }
        let mut indices = vec![0; found.len()];
        for (partition, index) in found {
            let at = &mut counts[partition as usize];
            indices[*at] = index;
            *at += 1;
        }
        KeyGroups { indices, ends, repeats }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// Each partition, with the indices of its keys.
    pub(super) fn partitions(&self) -> impl Iterator<Item = (u32, &[u32])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        starts
            .zip(&self.ends)
            .map(|(start, (partition, end))| (*partition, &self.indices[start..*end]))
    }

    /// At most so many indices of one partition at a time.
    pub(super) fn batches(&self, rows: usize) -> impl Iterator<Item = (u32, &[u32])> {
        self.partitions().flat_map(move |(partition, indices)| {
            indices.chunks(rows).map(move |indices| (partition, indices))
        })
    }

    /// Every other index of a key, with the one that was chosen.
    pub(super) fn repeats(&self) -> impl Iterator<Item = (usize, usize)> {
        self.repeats.iter().map(|(index, chosen)| (*index as usize, *chosen as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(keys: &[i64], keep: Keep) -> KeyGroups {
        KeyGroups::new(keys, |index| index != 1, keep, 4, |key| (key % 4) as u32)
    }

    #[test]
    fn each_key_is_chosen_once_and_stands_with_its_partition() {
        let check = |keep: Keep, want: &[(u32, &[u32])], repeats: &[(usize, usize)]| {
            let groups = groups(&[5, 7, 2, 5, 1, 2], keep);
            let sorted = |indices: &[u32]| {
                let mut indices = indices.to_vec();
                indices.sort_unstable();
                indices
            };
            let found: Vec<_> = groups.partitions().map(|(at, of)| (at, sorted(of))).collect();
            let want: Vec<_> = want.iter().map(|(at, of)| (*at, of.to_vec())).collect();
            assert_eq!(found, want);
            let mut found: Vec<_> = groups.repeats().collect();
            found.sort_unstable();
            assert_eq!(found, repeats);
        };
        check(Keep::First, &[(1, &[0, 4]), (2, &[2])], &[(3, 0), (5, 2)]);
        check(Keep::Last, &[(1, &[3, 4]), (2, &[5])], &[(0, 3), (2, 5)]);
    }

    #[test]
    fn batches_hold_keys_of_one_partition() {
        let groups = groups(&[0, 9, 4, 8, 3, 7, 11, 12], Keep::First);
        let sizes: Vec<_> = groups.batches(2).map(|(at, of)| (at, of.len())).collect();
        assert_eq!(sizes, [(0, 2), (0, 2), (3, 2), (3, 1)]);
        assert!(super::tests::groups(&[], Keep::Last).is_empty());
    }
}
