//! A table's rows in the memory of this process.
//!
//! Rows are cut into the configured partitions, which overflow one by one, and each partition into
//! shards: look-ups share a shard, a write has it alone. So a row is read whole, and a look-up
//! waits for no more than one piece of a write. A write has one shard at a time, a look-up those of
//! a few keys, in the order of their numbers, so nobody waits in a circle. For rows of 16 numbers
//! and more, memory is at most 1.3 times that of keys and rows, also while it grows: nothing is
//! ever doubled.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use terrace_tiers::TierError;

use super::keys_by_shard::KeysByShard;
use super::lookup_window::{LOOKED_AT_ONCE, LookupWindow};
use super::row_blocks::{BLOCK_BYTES, BLOCK_GROWTH};
use super::row_shard::{RowShard, ShardFull, Write};
use super::row_uses::RowUses;
use crate::config::{OverflowConfig, OverflowPolicy};
use crate::partition::{PartitionRule, mix};
use crate::row_store::{RowStore, ScannedRows};

#[derive(Clone, Debug)]
pub struct RamStoreConfig {
    pub dim: usize,
    pub partitions: u32,
    pub rule: PartitionRule,
    pub overflow: OverflowConfig,
    /// About how many rows there will be; with more it goes on, less spread.
    pub expected_rows: u64,
}

pub struct RamStore {
    config: RamStoreConfig,
    partitions: Vec<Partition>,
    /// Of each partition; a power of two.
    shards: usize,
    /// Counts calls, for what was used last.
    clock: AtomicU32,
}

struct Partition {
    /// Held by whoever writes: what overflows is decided by one at a time.
    writer: Mutex<Chance>,
    shards: Vec<RwLock<RowShard>>,
    rows: AtomicUsize,
}

/// Rows of a shard that make another one worth its while.
const SHARD_ROWS: u64 = 1 << 16;
const SHARDS_MOST: u64 = 64;
/// Rows that are written before a look-up that waits for the shard gets it.
const WRITTEN_AT_ONCE: usize = 256;
/// Calls after which old uses are bounded, well before 32 bits come round.
const AGING_CALLS: u32 = 1 << 30;

/// Of the slots of a row's key, at most, and of the mark of its use.
const SLOT_BYTES_MOST: f64 = 7.5;
const MARK_BYTES_MOST: f64 = 5.0;
/// That a shard has itself, with what few rows take ahead of need.
const SHARD_BYTES_MOST: u64 = 10 << 10;

impl RamStoreConfig {
    /// Of memory that so many rows take, at most.
    pub fn bytes_most(&self, rows: u64) -> u64 {
        let has_marks = !matches!(self.uses(), RowUses::None);
        let beside = SLOT_BYTES_MOST + if has_marks { MARK_BYTES_MOST } else { 0.0 };
        let record_bytes = (size_of::<i64>() + self.dim * size_of::<f32>()) as f64;
        let shards = u64::from(self.partitions) * self.shards() as u64;
        let last_block = (rows as f64 * record_bytes / shards as f64).min(BLOCK_BYTES as f64);
        let of_shard = SHARD_BYTES_MOST + (last_block * BLOCK_GROWTH) as u64;
        (rows as f64 * (record_bytes + beside)) as u64 + shards.min(rows).saturating_mul(of_shard)
    }

    /// Of each partition.
    fn shards(&self) -> usize {
        let rows = self.expected_rows / u64::from(self.partitions);
        (rows / SHARD_ROWS).clamp(1, SHARDS_MOST).next_power_of_two() as usize
    }

    fn uses(&self) -> RowUses {
        RowUses::new(self.overflow.policy, self.overflow.margin < u64::MAX)
    }
}

impl RamStore {
    pub fn new(config: RamStoreConfig) -> Self {
        assert!(config.dim > 0 && config.partitions > 0, "{config:?}");
        let shards = config.shards();
        let shard = || RwLock::new(RowShard::new(config.dim, config.uses()));
        let partition = |seed: u32| Partition {
            writer: Mutex::new(Chance(u64::from(seed))),
            shards: (0..shards).map(|_| shard()).collect(),
            rows: AtomicUsize::new(0),
        };
        let partitions = (0..config.partitions).map(partition).collect();
        RamStore { partitions, shards, clock: AtomicU32::new(0), config }
    }

    /// Of memory, with what was taken ahead of need.
    pub fn bytes(&self) -> usize {
        let shards = self.partitions.iter().flat_map(|partition| &partition.shards);
        shards.map(|shard| read(shard).bytes()).sum()
    }

    /// The shard of a key, counted over all partitions.
    #[inline]
    fn shard_of(&self, key: i64) -> usize {
        let hash = mix(key.cast_unsigned());
        let partition = match (self.config.rule, self.config.partitions) {
            (_, 1) => 0,
            (PartitionRule::Mix, partitions) => (hash % u64::from(partitions)) as usize,
            (rule, partitions) => rule.partition(key, partitions) as usize,
        };
        partition * self.shards + ((hash >> 48) as usize & (self.shards - 1))
    }

    fn shard(&self, number: usize) -> (&Partition, &RwLock<RowShard>) {
        let partition = &self.partitions[number / self.shards];
        (partition, &partition.shards[number % self.shards])
    }

    /// Those keys that `takes` names.
    fn by_shard(&self, keys: &[i64], takes: impl Fn(usize) -> bool) -> KeysByShard {
        let shard_count = self.partitions.len() * self.shards;
        KeysByShard::new(keys, shard_count, takes, |key| self.shard_of(key))
    }

    fn write(&self, keys: &[i64], rows: &[f32], how: Write) -> Result<(), TierError> {
        let dim = self.config.dim;
        assert_eq!(rows.len(), keys.len() * dim, "rows of a write");
        let now = self.tick();
        for (number, indices) in self.by_shard(keys, |_| true).shards() {
            let (partition, shard) = self.shard(number);
            let mut chance = partition.writer.lock().unwrap_or_else(PoisonError::into_inner);
            for indices in indices.chunks(WRITTEN_AT_ONCE) {
                let mut shard = write(shard);
                let before = shard.count();
                let written = shard.write_many(keys, rows, indices, how, now);
                let added = shard.count() - before;
                drop(shard);
                partition.rows.fetch_add(added, Ordering::Relaxed);
                written.map_err(|ShardFull { rows }| full(rows))?;
                self.relieve(partition, &mut chance, now);
            }
        }
        Ok(())
    }

    /// Evicts exactly down to the target, if the partition has more rows than it may have.
    fn relieve(&self, partition: &Partition, chance: &mut Chance, now: u32) {
        let OverflowConfig { margin, policy, target } = self.config.overflow;
        let rows = partition.rows.load(Ordering::Relaxed);
        if rows as u64 <= margin {
            return;
        }
        let left = (margin as f64 * target).floor() as usize;
        let mut candidates = Vec::with_capacity(rows);
        for (number, shard) in partition.shards.iter().enumerate() {
            let shard = read(shard);
            for row in 0..shard.count() as u32 {
                let worth = shard.worth(row, now).unwrap_or_else(|| chance.next());
                candidates.push((worth, number as u32, shard.entry(row).0));
            }
        }
        let victims = candidates.len() - left.min(candidates.len());
        if victims > 0 && victims < candidates.len() {
            candidates.select_nth_unstable(victims - 1);
        }
        for (_, shard, key) in &candidates[..victims] {
            write(&partition.shards[*shard as usize]).remove(*key);
        }
        partition.rows.fetch_sub(victims, Ordering::Relaxed);
        if policy == OverflowPolicy::EvictLeastUsed {
            partition.shards.iter().for_each(|shard| write(shard).uses_mut().halve_counts());
        }
    }

    fn tick(&self) -> u32 {
        let now = self.clock.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if now.is_multiple_of(AGING_CALLS) {
            let shards = self.partitions.iter().flat_map(|partition| &partition.shards);
            shards.for_each(|shard| write(shard).uses_mut().bound_ages(now));
        }
        now
    }
}

impl RowStore for RamStore {
    fn name(&self) -> &str {
        "ram"
    }

    fn get_many(
        &self,
        keys: &[i64],
        rows: &mut [f32],
        found: &mut [bool],
    ) -> Result<(), TierError> {
        let dim = self.config.dim;
        assert_eq!((rows.len(), found.len()), (keys.len() * dim, keys.len()), "rows of a look-up");
        let now = self.tick();
        let by_shard = self.by_shard(keys, |index| !found[index]);
        let mut read_shards = Vec::new();
        by_shard.windows(LOOKED_AT_ONCE, |pieces| {
            read_shards.extend(pieces.iter().map(|(number, _)| read(self.shard(*number).1)));
            let window = LookupWindow { shards: &read_shards, pieces };
            window.look_up(keys, now, |index, row| {
                rows[index * dim..][..dim].copy_from_slice(row);
                found[index] = true;
            });
            read_shards.clear();
        });
        Ok(())
    }

    fn put_many(&self, keys: &[i64], rows: &[f32]) -> Result<(), TierError> {
        self.write(keys, rows, Write::All)
    }

    fn add_many(&self, keys: &[i64], rows: &[f32]) -> Result<(), TierError> {
        self.write(keys, rows, Write::Absent)
    }

    fn remove_many(&self, keys: &[i64]) -> Result<(), TierError> {
        for (number, indices) in self.by_shard(keys, |_| true).shards() {
            let (partition, shard) = self.shard(number);
            let _writer = partition.writer.lock().unwrap_or_else(PoisonError::into_inner);
            let mut shard = write(shard);
            let gone = indices.iter().filter(|index| shard.remove(keys[**index as usize])).count();
            partition.rows.fetch_sub(gone, Ordering::Relaxed);
        }
        Ok(())
    }

    fn count(&self) -> Result<u64, TierError> {
        let rows = self.partitions.iter().map(|it| it.rows.load(Ordering::Relaxed) as u64);
        Ok(rows.sum())
    }

    fn scan(&self, batch_rows: usize, each: &mut ScannedRows<'_>) -> Result<(), TierError> {
        let batch_rows = batch_rows.max(1);
        for shard in self.partitions.iter().flat_map(|partition| &partition.shards) {
            // Keys first: a removal moves rows while nobody holds the shard.
            let keys: Vec<i64> = {
                let shard = read(shard);
                (0..shard.count() as u32).map(|row| shard.entry(row).0).collect()
            };
            for keys in keys.chunks(batch_rows) {
                let mut rows = vec![0.0; keys.len() * self.config.dim];
                let mut found = vec![false; keys.len()];
                self.get_many(keys, &mut rows, &mut found)?;
                give_found(keys, &rows, &found, each)?;
            }
        }
        Ok(())
    }
}

/// Calls `each` with those that were found.
fn give_found(
    keys: &[i64],
    rows: &[f32],
    found: &[bool],
    each: &mut ScannedRows<'_>,
) -> Result<(), TierError> {
    if found.iter().all(|found| *found) {
        return each(keys, rows);
    }
    let dim = rows.len() / keys.len().max(1);
    let there = (0..keys.len()).filter(|index| found[*index]);
    let (keys, rows): (Vec<i64>, Vec<&[f32]>) =
        there.map(|index| (keys[index], &rows[index * dim..][..dim])).unzip();
    each(&keys, &rows.concat())
}

fn full(rows: usize) -> TierError {
    TierError::Full(format!(
        "ram: a shard has {rows} rows and cannot hold more; give the level more partitions, or an \
         overflow margin"
    ))
}

fn read(shard: &RwLock<RowShard>) -> RwLockReadGuard<'_, RowShard> {
    shard.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(shard: &RwLock<RowShard>) -> RwLockWriteGuard<'_, RowShard> {
    shard.write().unwrap_or_else(PoisonError::into_inner)
}

/// Random numbers that choose victims.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(1);
        (mix(self.0) >> 32) as u32
    }
}

#[cfg(test)]
mod tests;
