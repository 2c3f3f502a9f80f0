//! The keys of a call, by the shards that they are of.

/// Indices of keys, sorted by shard; those of one shard in their order.
pub(super) struct KeysByShard {
    indices: Vec<u32>,
    /// Of each shard.
    ends: Vec<u32>,
}

/// Some indices of a shard, and its number.
pub(super) type ShardPiece<'a> = (usize, &'a [u32]);

impl KeysByShard {
    /// Of the keys that `takes` names. `shard_of` gives less than `shards`.
    pub(super) fn new(
        keys: &[i64],
        shards: usize,
        takes: impl Fn(usize) -> bool,
        shard_of: impl Fn(i64) -> usize,
    ) -> Self {
        assert!(u32::try_from(keys.len()).is_ok(), "{} keys in one call", keys.len());
        // Keys that are not taken come last, as those of one shard more.
        let mut ends = vec![0u32; shards + 1];
        let mut shard_numbers = Vec::with_capacity(keys.len());
        for (index, key) in keys.iter().enumerate() {
            let shard = if takes(index) { shard_of(*key) } else { shards };
            ends[shard] += 1;
            shard_numbers.push(shard as u32);
        }
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        let mut indices = vec![0; keys.len()];
        for (index, shard) in shard_numbers.iter().enumerate() {
            let at = &mut ends[*shard as usize];
            indices[*at as usize] = index as u32;
            *at += 1;
        }
        ends.truncate(shards);
        KeysByShard { indices, ends }
    }

    /// Every shard that has keys here, with all of their indices.
    pub(super) fn shards(&self) -> impl Iterator<Item = ShardPiece<'_>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let pieces = starts.zip(&self.ends).enumerate();
        pieces
            .map(|(shard, (start, end))| (shard, &self.indices[start as usize..*end as usize]))
            .filter(|(_, indices)| !indices.is_empty())
    }

    /// Calls `each` with all indices, at most so many at a time, in the order of their shards.
    pub(super) fn windows<'a>(&'a self, most: usize, mut each: impl FnMut(&[ShardPiece<'a>])) {
        let (mut pieces, mut room) = (Vec::new(), most);
        for (shard, mut indices) in self.shards() {
            while !indices.is_empty() {
                let (now, later) = indices.split_at(room.min(indices.len()));
                pieces.push((shard, now));
                room -= now.len();
                indices = later;
                if room == 0 {
                    each(&pieces);
                    pieces.clear();
                    room = most;
                }
            }
        }
        if !pieces.is_empty() {
            each(&pieces);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(keys: &[i64], most: usize, want: &[&[ShardPiece<'_>]]) {
        let takes = |index: usize| keys[index] >= 0;
        let by_shard = KeysByShard::new(keys, 4, takes, |key| key as usize % 4);
        let mut windows = Vec::new();
        by_shard.windows(most, |pieces| windows.push(pieces.to_vec()));
        assert_eq!(windows, want);
    }

    #[test]
    fn windows_are_filled_from_shard_to_shard() {
        check(&[], 3, &[]);
        check(&[-1, -2], 3, &[]);
        check(&[5, 1, 9], 3, &[&[(1, &[0, 1, 2])]]);
        check(
            &[7, 4, -1, 3, 0, 8, 4, 11],
            3,
            &[&[(0, &[1, 4, 5])], &[(0, &[6]), (3, &[0, 3])], &[(3, &[7])]],
        );
    }
}
