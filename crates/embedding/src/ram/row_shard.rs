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

/// Keys whose slots are looked at before the first row is: their memory is fetched at once.
const LOOKED_AT_ONCE: usize = 16;

impl RowShard {
    pub(super) fn new(dim: usize, uses: RowUses) -> Self {
        RowShard { slots: KeySlots::default(), blocks: RowBlocks::new(dim), uses }
    }

    pub(super) fn count(&self) -> usize {
        self.blocks.count()
    }

    /// Calls `found` with each index whose key is here, and its row.
    #[inline]
    pub(super) fn get_many(
        &self,
        keys: &[i64],
        indices: &[u32],
        now: u32,
        mut found: impl FnMut(usize, &[f32]),
    ) {
        let mut rows = [None; LOOKED_AT_ONCE];
        for indices in indices.chunks(LOOKED_AT_ONCE) {
            for (row, index) in rows.iter_mut().zip(indices) {
                *row = self.find(keys[*index as usize]);
            }
            for (row, index) in rows.iter().zip(indices) {
                if let Some(row) = *row {
                    self.uses.touch(row, now);
                    found(*index as usize, self.blocks.row(row));
                }
            }
        }
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
        let dim = rows.len() / keys.len();
        for index in indices.iter().map(|index| *index as usize) {
            let (key, numbers) = (keys[index], &rows[index * dim..][..dim]);
            match self.find(key) {
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
                    self.slots.add(KeyHash::of(key), row, |row| KeyHash::of(blocks.key(row)));
                }
            }
        }
        Ok(())
    }

    /// Whether the key was there.
    pub(super) fn remove(&mut self, key: i64) -> bool {
        let Some(row) = self.find(key) else { return false };
        let blocks = &self.blocks;
        self.slots.remove(KeyHash::of(key), row, |row| KeyHash::of(blocks.key(row)));
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
    fn find(&self, key: i64) -> Option<u32> {
        self.slots.find(KeyHash::of(key), |row| self.blocks.key(row) == key)
    }
}
