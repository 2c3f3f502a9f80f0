//! A look-up whose rows go to host memory, through a hot cache there or through none.

use std::sync::Arc;
use std::time::Instant;

use terrace_kernels::{dedupe_keys, expand_rows};

use super::host_rows::HostRows;
use super::lookup_stats::LookupStats;
use super::missing_rows::MissingRows;
use super::served_table::ServedTable;
use crate::error::Error;
use crate::hot_cache::{HostCache, HotCache};

impl ServedTable {
    /// The rows of keys, in host memory, through the first hot cache there; straight from the
    /// levels where the table has none · rows: `[keys, dim]`
    pub fn look_up(
        self: &Arc<Self>,
        keys: &[i64],
        missing: MissingRows,
        rows: &mut [f32],
    ) -> Result<LookupStats, Error> {
        let dim = self.spec().dim;
        assert_eq!(rows.len(), keys.len() * dim, "rows of a look-up");
        let mut found = HostRows::default();
        let stats = self.look_up_unique(0, keys, missing, &mut found)?;
        expand_rows(&found.rows, &found.inverse, dim, rows);
        Ok(stats)
    }

    /// As [`look_up`](Self::look_up), each row once, through one of the hot caches in host memory
    /// by its number; a table with fewer of them is asked through its last.
    pub fn look_up_unique(
        self: &Arc<Self>,
        cache: usize,
        keys: &[i64],
        missing: MissingRows,
        found: &mut HostRows,
    ) -> Result<LookupStats, Error> {
        let begun = Instant::now();
        self.spec().key_kind.check(keys)?;
        let cache = self.host_caches(cache).last().map(|(at, _)| at);
        let stats = look_up(self, cache, keys, missing, found)?;
        self.count(&stats, begun);
        Ok(stats)
    }

    /// The hot cache in host memory that [`look_up_unique`](Self::look_up_unique) asks.
    pub fn host_cache(&self, number: usize) -> Option<&HostCache> {
        self.host_caches(number).last().map(|(_, cache)| cache)
    }

    /// Hot caches in host memory up to a number, each with its place among all.
    fn host_caches(&self, number: usize) -> impl Iterator<Item = (usize, &HostCache)> {
        let caches = self.caches().iter().enumerate();
        let in_host = caches.filter_map(|(at, cache)| match cache.cache() {
            HotCache::Host(cache) => Some((at, cache)),
            HotCache::Cuda(_) => None,
        });
        in_host.take(number + 1)
    }
}

fn look_up(
    table: &Arc<ServedTable>,
    cache: Option<usize>,
    keys: &[i64],
    missing: MissingRows,
    found: &mut HostRows,
) -> Result<LookupStats, Error> {
    let dim = table.spec().dim;
    let HostRows { unique, inverse, rows, missed } = found;
    dedupe_keys(keys, unique, inverse);
    let mut stats = LookupStats { keys: keys.len(), unique: unique.len(), ..Default::default() };
    let Some(at) = cache else {
        let fetched = table.fetch(None, unique)?;
        *rows = fetched.rows;
        stats.defaults = fetched.defaults;
        stats.unanswered = fetched.unanswered;
        return Ok(stats);
    };
    let HotCache::Host(cache) = table.caches()[at].cache() else {
        panic!("a hot cache of another device");
    };
    rows.resize(unique.len() * dim, 0.0);
    missed.clear();
    cache.query(unique, table.spec().default_value, rows, missed);
    stats.hits = unique.len() - missed.len();
    if missed.is_empty() {
        return Ok(stats);
    }
    let missed_keys: Vec<i64> = missed.iter().map(|index| unique[*index as usize]).collect();
    if table.caches()[at].waits(missing, missed.len(), unique.len()) {
        let fetched = table.fetch(Some(at), &missed_keys)?;
        for (row, index) in fetched.rows.chunks_exact(dim).zip(missed.iter()) {
            rows[*index as usize * dim..][..dim].copy_from_slice(row);
        }
        stats.defaults = fetched.defaults;
        stats.unanswered = fetched.unanswered;
    } else {
        table.defer(at, &missed_keys);
        stats.deferred = missed.len();
    }
    Ok(stats)
}
