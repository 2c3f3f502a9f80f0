//! Look-ups on a GPU: keys go there, and rows stay there.
//!
//! One of these is what one look-up at a time works in: a stream of its own and memory for so many
//! keys. The tables' hot caches are shared.

use std::sync::Arc;
use std::time::Instant;

use terrace_device::cuda::CudaDevice;
use terrace_device::{DType, View, ViewMut};
use terrace_kernels::{DedupeArgs, GatherOps, HostHits, QueryArgs, dedupe_keys};

use super::lookup_stats::LookupStats;
use super::missing_rows::MissingRows;
use super::served_table::ServedTable;
use crate::error::Error;
use crate::hot_cache::{HotCache, StagedBuffer};

pub struct CudaLookup {
    ops: GatherOps,
    keys_most: usize,
    dim_most: usize,
    keys: StagedBuffer,
    table: StagedBuffer,
    slots: StagedBuffer,
    unique_keys: StagedBuffer,
    inverse: StagedBuffer,
    unique_rows: StagedBuffer,
    missed_keys: StagedBuffer,
    missed_at: StagedBuffer,
    fetched: StagedBuffer,
    rows: StagedBuffer,
    host_hits: HostHits,
    /// i32 `[4]`: unique and missed keys, of this call and the next; the halves take turns.
    counters: StagedBuffer,
    is_second: bool,
}

/// Rows of a look-up in device memory. The row of key `i` is the unique row `inverse[i]`.
pub struct DeviceRows<'a> {
    /// f32 `[keys, dim]`, of which the first `unique` are rows
    pub unique_rows: View<'a>,
    /// i32 `[keys]`
    pub inverse: View<'a>,
    pub stats: LookupStats,
}

impl CudaLookup {
    /// For look-ups of at most so many keys in tables of at most so many numbers a row.
    pub fn new(device: &Arc<CudaDevice>, keys_most: usize, dim_most: usize) -> Result<Self, Error> {
        let buffer = |bytes| StagedBuffer::new(device, bytes, "look-ups of rows");
        let slots = (2 * keys_most).next_power_of_two();
        let [keys, unique_keys, missed_keys] = [(); 3].map(|()| buffer(keys_most * 8));
        let [inverse, scratch, missed_at] = [(); 3].map(|()| buffer(keys_most * 4));
        let [unique_rows, fetched, rows] = [(); 3].map(|()| buffer(keys_most * dim_most * 4));
        let mut table = buffer(slots * 4)?;
        device.write(&table.view_mut(DType::U8, [slots * 4]), &vec![0xff; slots * 4])?;
        Ok(CudaLookup {
            ops: GatherOps::new(device)?,
            keys_most,
            dim_most,
            keys: keys?,
            table,
            slots: scratch?,
            unique_keys: unique_keys?,
            inverse: inverse?,
            unique_rows: unique_rows?,
            missed_keys: missed_keys?,
            missed_at: missed_at?,
            fetched: fetched?,
            rows: rows?,
            host_hits: HostHits::new(device, keys_most)?,
            counters: buffer(4 * 4)?,
            is_second: false,
        })
    }

    /// The rows of keys, through one of the table's hot caches, which is of this GPU.
    pub fn look_up(
        &mut self,
        table: &Arc<ServedTable>,
        cache: usize,
        keys: &[i64],
        missing: MissingRows,
    ) -> Result<DeviceRows<'_>, Error> {
        let begun = Instant::now();
        let spec = table.spec();
        spec.key_kind.check(keys)?;
        assert!(keys.len() <= self.keys_most && spec.dim <= self.dim_most, "room for a look-up");
        self.keys.bring_keys(keys);
        self.dedupe(keys.len());
        self.query(table, cache, keys.len())?;
        let counters = self.counters.fetch_counts(4)?;
        let half = if self.is_second { 2 } else { 0 };
        let [unique, missed] = [counters[half], counters[half + 1]].map(|count| count as usize);
        self.is_second = !self.is_second;
        let mut stats = LookupStats {
            keys: keys.len(),
            unique,
            hits: unique - missed,
            ..LookupStats::default()
        };
        if missed > 0 {
            let missed_keys = self.missed_keys.fetch_keys(missed)?;
            if table.caches()[cache].waits(missing, missed, unique) {
                let fetched = table.fetch(Some(cache), &missed_keys)?;
                self.merge(&fetched.rows, missed, spec.dim, keys.len());
                stats.defaults = fetched.defaults;
                stats.unanswered = fetched.unanswered;
            } else {
                table.defer(cache, &missed_keys);
                stats.deferred = missed;
            }
        }
        table.count(&stats, begun);
        Ok(DeviceRows {
            unique_rows: self.unique_rows.view(DType::F32, [keys.len(), spec.dim]),
            inverse: self.inverse.view(DType::I32, [keys.len()]),
            stats,
        })
    }

    /// The rows of keys straight from the levels, of a table without a hot cache on this GPU.
    pub fn look_up_levels(
        &mut self,
        table: &Arc<ServedTable>,
        keys: &[i64],
    ) -> Result<DeviceRows<'_>, Error> {
        let begun = Instant::now();
        let spec = table.spec();
        spec.key_kind.check(keys)?;
        assert!(keys.len() <= self.keys_most && spec.dim <= self.dim_most, "room for a look-up");
        let (mut unique, mut inverse) = (Vec::new(), Vec::new());
        dedupe_keys(keys, &mut unique, &mut inverse);
        let fetched = table.fetch(None, &unique)?;
        let stats = LookupStats {
            keys: keys.len(),
            unique: unique.len(),
            defaults: fetched.defaults,
            unanswered: fetched.unanswered,
            ..LookupStats::default()
        };
        // What was brought before must have come.
        self.ops.device().synchronize()?;
        self.unique_rows.bring_rows(&fetched.rows, spec.dim);
        self.inverse.bring_indices(&inverse);
        table.count(&stats, begun);
        Ok(DeviceRows {
            unique_rows: self.unique_rows.view(DType::F32, [keys.len(), spec.dim]),
            inverse: self.inverse.view(DType::I32, [keys.len()]),
            stats,
        })
    }

    /// As [`look_up`](Self::look_up), with the rows in host memory · rows: `[keys, dim]`
    pub fn look_up_to_host(
        &mut self,
        table: &Arc<ServedTable>,
        cache: usize,
        keys: &[i64],
        missing: MissingRows,
        rows: &mut [f32],
    ) -> Result<LookupStats, Error> {
        let (dim, count) = (table.spec().dim, keys.len());
        assert_eq!(rows.len(), count * dim, "rows of a look-up");
        let stats = self.look_up(table, cache, keys, missing)?.stats;
        self.ops.expand_rows(
            self.unique_rows.view(DType::F32, [count, dim]),
            self.inverse.view(DType::I32, [count]),
            self.rows.view_mut(DType::F32, [count, dim]),
        );
        self.rows.fetch_rows(rows)?;
        Ok(stats)
    }

    fn dedupe(&mut self, count: usize) {
        let slots = (2 * self.keys_most).next_power_of_two();
        let Counters { unique, next_unique, .. } = Counters::of(&mut self.counters, self.is_second);
        self.ops.dedupe(DedupeArgs {
            keys: self.keys.view(DType::I64, [count]),
            table: self.table.view_mut(DType::I32, [slots]),
            slots: self.slots.view_mut(DType::I32, [count]),
            unique_keys: self.unique_keys.view_mut(DType::I64, [count]),
            inverse: self.inverse.view_mut(DType::I32, [count]),
            unique,
            next_unique,
        });
    }

    fn query(&mut self, table: &Arc<ServedTable>, cache: usize, count: usize) -> Result<(), Error> {
        let HotCache::Cuda(cache) = table.caches()[cache].cache() else {
            panic!("a hot cache of another device");
        };
        let Counters { unique, missed, next_missed, .. } =
            Counters::of(&mut self.counters, self.is_second);
        self.ops.query(
            cache.cache(),
            QueryArgs {
                keys: self.unique_keys.view(DType::I64, [count]),
                unique: Some(unique.into_view()),
                default_value: table.spec().default_value,
                rows: self.unique_rows.view_mut(DType::F32, [count, table.spec().dim]),
                missed_keys: self.missed_keys.view_mut(DType::I64, [count]),
                missed_at: self.missed_at.view_mut(DType::I32, [count]),
                missed,
                next_missed,
                host_hits: Some(&mut self.host_hits),
            },
        )?;
        Ok(())
    }

    /// Puts fetched rows where the misses were.
    fn merge(&mut self, rows: &[f32], missed: usize, dim: usize, count: usize) {
        self.fetched.bring_rows(rows, dim);
        self.ops.scatter_rows(
            self.fetched.view(DType::F32, [missed, dim]),
            self.missed_at.view(DType::I32, [missed]),
            self.unique_rows.view_mut(DType::F32, [count, dim]),
        );
    }
}

/// Counters of this call and of the next, each i32 `[1, 1]`.
struct Counters<'a> {
    unique: ViewMut<'a>,
    missed: ViewMut<'a>,
    next_unique: ViewMut<'a>,
    next_missed: ViewMut<'a>,
}

impl<'a> Counters<'a> {
    fn of(counters: &'a mut StagedBuffer, is_second: bool) -> Self {
        let [unique, missed, next_unique, next_missed] =
            counters.view_mut(DType::I32, [1, 4]).split_columns([1; 4]);
        let first = Counters { unique, missed, next_unique, next_missed };
        match is_second {
            false => first,
            true => Counters {
                unique: first.next_unique,
                missed: first.next_missed,
                next_unique: first.unique,
                next_missed: first.missed,
            },
        }
    }
}
