//! A part of a table that is locked as one: keys, rows, and how they were used.

use super::key_slots::{KeyHash, KeySlots, ROWS_MAX};
use super::row_blocks::RowBlocks;
use super::row_uses::RowUses;

pub(super) struct RowShard {
    slots: KeySlots,
    blocks: RowBlocks,
    uses: RowUses,
}

/// Which rows a write writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    All,
    /// Those of keys that are not there.
    Absent,
}

/// Has as many rows as can be numbered.
pub(super) struct ShardFull {
    pub(super) rows: usize,
}

/// Keys of a write whose memory is asked for at once.
const WRITTEN_AT_ONCE: usize = 32;

impl RowShard {
    pub(super) fn new(dim: usize, uses: RowUses) -> Self {
        RowShard { slots: KeySlots::default(), blocks: RowBlocks::new(dim), uses }
    }

    pub(super) fn count(&self) -> usize {
        self.blocks.count()
    }

    /// The first step of a look-up: asks for the slot of a key.
    #[inline]
    pub(super) fn prefetch_slot(&self, hash: KeyHash) {
        self.slots.prefetch(hash);
    }

    /// The second step: the row that is most likely the key's.
    #[inline]
    pub(super) fn likely_row(&self, hash: KeyHash) -> Option<u32> {
        self.slots.find(hash, |_| true)
    }

    /// The third step: asks for that row.
    #[inline]
    pub(super) fn prefetch_row(&self, likely: Option<u32>) {
        if let Some(row) = likely {
            self.blocks.prefetch(row);
        }
    }

    /// The last step: the key's row, if it is here.
    #[inline]
    pub(super) fn use_row(
        &self,
        key: i64,
        hash: KeyHash,
        likely: Option<u32>,
        now: u32,
    ) -> Option<&[f32]> {
        let likely = likely?;
        let row = match self.blocks.key(likely) == key {
            true => likely,
            false => self.find(key, hash)?,
        };
        self.uses.touch(row, now);
        Some(self.blocks.row(row))
    }

    /// Writes the rows of some indices, one after the other; after an error those before it.
    pub(super) fn write_many(
        &mut self,
        keys: &[i64],
        rows: &[f32],
        indices: &[u32],
        how: Write,
        now: u32,
    ) -> Result<(), ShardFull> {
        for indices in indices.chunks(WRITTEN_AT_ONCE) {
            let hashes = || indices.iter().map(|index| KeyHash::of(keys[*index as usize]));
            hashes().for_each(|hash| self.prefetch_slot(hash));
            hashes().for_each(|hash| self.prefetch_row(self.likely_row(hash)));
            self.write_each(keys, rows, indices, how, now)?;
        }
        Ok(())
    }

    fn write_each(
        &mut self,
        keys: &[i64],
        rows: &[f32],
        indices: &[u32],
        how: Write,
        now: u32,
    ) -> Result<(), ShardFull> {
        let dim = rows.len() / keys.len();
        for index in indices.iter().map(|index| *index as usize) {
            let (key, numbers) = (keys[index], &rows[index * dim..][..dim]);
            let hash = KeyHash::of(key);
            match self.find(key, hash) {
                Some(_) if how == Write::Absent => {}
                Some(row) => {
                    self.blocks.replace(row, numbers);
                    self.uses.touch(row, now);
                }
                None if self.count() == ROWS_MAX => return Err(ShardFull { rows: ROWS_MAX }),
                None => {
                    let row = self.count() as u32;
                    self.blocks.push(key, numbers);
                    self.uses.push(now);
                    let blocks = &self.blocks;
                    self.slots.add(hash, row, |row| KeyHash::of(blocks.key(row)));
                }
            }
        }
        Ok(())
    }

    /// Whether the key was there.
    pub(super) fn remove(&mut self, key: i64) -> bool {
        let hash = KeyHash::of(key);
        let Some(row) = self.find(key, hash) else { return false };
        let blocks = &self.blocks;
        self.slots.remove(hash, row, |row| KeyHash::of(blocks.key(row)));
        let last = self.count() as u32 - 1;
        if row != last {
            self.slots.renumber(KeyHash::of(self.blocks.key(last)), last, row);
        }
        self.blocks.swap_remove(row);
        self.uses.swap_remove(row);
        true
    }

    /// Key and row of a number below the count.
    pub(super) fn entry(&self, row: u32) -> (i64, &[f32]) {
        (self.blocks.key(row), self.blocks.row(row))
    }

    /// As [`RowUses::worth`].
    pub(super) fn worth(&self, row: u32, now: u32) -> Option<u32> {
        self.uses.worth(row, now)
    }

    pub(super) fn uses_mut(&mut self) -> &mut RowUses {
        &mut self.uses
    }

    /// Of memory, with what was taken ahead of need.
    pub(super) fn bytes(&self) -> usize {
        self.slots.bytes() + self.blocks.bytes() + self.uses.bytes() + size_of::<Self>()
    }

    #[inline]
    fn find(&self, key: i64, hash: KeyHash) -> Option<u32> {
        self.slots.find(hash, |row| self.blocks.key(row) == key)
    }
}
