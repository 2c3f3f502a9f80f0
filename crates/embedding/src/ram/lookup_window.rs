//! Some keys of a look-up, whose memory is asked for together.
//!
//! A key's slot and its row are seldom in a cache, and the row's place is known from the slot only.
//! So all slots of a window are asked for, then they are read, then all rows are asked for, and
//! then copied: what is waited for comes at once. Reading slots beside asking for rows was a tenth
//! slower, as what a processor guesses wrong about a slot holds up the rows behind it. Shards of
//! few keys share a window.

use std::sync::RwLockReadGuard;

use super::key_slots::KeyHash;
use super::keys_by_shard::ShardPiece;
use super::row_shard::RowShard;

/// Enough to keep memory busy, and few enough to stay in the first cache: rows of 64 numbers take
/// 16 KiB.
pub(super) const LOOKED_AT_ONCE: usize = 64;

pub(super) struct LookupWindow<'a> {
    /// Of each piece.
    pub(super) shards: &'a [RwLockReadGuard<'a, RowShard>],
    /// At most [`LOOKED_AT_ONCE`] indices.
    pub(super) pieces: &'a [ShardPiece<'a>],
}

impl LookupWindow<'_> {
    /// Calls `found` with each index whose key is there, and its row.
    #[inline]
    pub(super) fn look_up(&self, keys: &[i64], now: u32, mut found: impl FnMut(usize, &[f32])) {
        let mut hashes = [KeyHash::default(); LOOKED_AT_ONCE];
        let mut likely = [None; LOOKED_AT_ONCE];
        self.each(|at, shard, index| {
            hashes[at] = KeyHash::of(keys[index]);
            shard.prefetch_slot(hashes[at]);
        });
        self.each(|at, shard, _| likely[at] = shard.likely_row(hashes[at]));
        self.each(|at, shard, _| shard.prefetch_row(likely[at]));
        self.each(|at, shard, index| {
            if let Some(row) = shard.use_row(keys[index], hashes[at], likely[at], now) {
                found(index, row);
            }
        });
    }

    /// Calls `work` with each index, its shard, and its place in the window.
    #[inline]
    fn each(&self, mut work: impl FnMut(usize, &RowShard, usize)) {
        let mut at = 0;
        for (shard, (_, indices)) in self.shards.iter().zip(self.pieces) {
            for index in *indices {
                work(at, shard, *index as usize);
                at += 1;
            }
        }
    }
}
