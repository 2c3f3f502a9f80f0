//! A look-up whose rows go to host memory, through a hot cache there or through none.

use std::sync::Arc;
use std::time::Instant;

use terrace_kernels::{dedupe_keys, expand_rows};

use super::lookup_stats::LookupStats;
use super::missing_rows::MissingRows;
use super::served_table::ServedTable;
use crate::error::Error;
use crate::hot_cache::HotCache;

impl ServedTable {
    /// The rows of keys, in host memory, through a hot cache there; straight from the levels where
    /// the table has none · rows: `[keys, dim]`
    pub fn look_up(
        self: &Arc<Self>,
        keys: &[i64],
        missing: MissingRows,
        rows: &mut [f32],
    ) -> Result<LookupStats, Error> {
        let begun = Instant::now();
        self.spec().key_kind.check(keys)?;
        let stats = look_up(self, keys, missing, rows)?;
        self.count(&stats, begun);
        Ok(stats)
    }
}

fn look_up(
    table: &Arc<ServedTable>,
    keys: &[i64],
    missing: MissingRows,
    rows: &mut [f32],
) -> Result<LookupStats, Error> {
    let dim = table.spec().dim;
    assert_eq!(rows.len(), keys.len() * dim, "rows of a look-up");
    let (mut unique, mut inverse) = (Vec::new(), Vec::new());
    dedupe_keys(keys, &mut unique, &mut inverse);
    let mut stats = LookupStats { keys: keys.len(), unique: unique.len(), ..Default::default() };
    let mut unique_rows = vec![0.0; unique.len() * dim];
    let mut missed: Vec<u32> = Vec::new();
    let host = table.caches().iter().position(|it| matches!(it.cache(), HotCache::Host(_)));
    match host.map(|at| (at, table.caches()[at].cache())) {
        Some((_, HotCache::Host(cache))) => {
            let default_value = table.spec().default_value;
            cache.query(&unique, default_value, &mut unique_rows, &mut missed);
        }
        _ => missed.extend(0..unique.len() as u32),
    }
    stats.hits = unique.len() - missed.len();
    let missed_keys: Vec<i64> = missed.iter().map(|index| unique[*index as usize]).collect();
    match host {
        _ if missed.is_empty() => {}
        Some(at) if !table.caches()[at].waits(missing, missed.len(), unique.len()) => {
            table.defer(at, &missed_keys);
            stats.deferred = missed.len();
        }
        cache => {
            let fetched = table.fetch(cache, &missed_keys)?;
            for (row, index) in fetched.rows.chunks_exact(dim).zip(&missed) {
                unique_rows[*index as usize * dim..][..dim].copy_from_slice(row);
            }
            stats.defaults = fetched.defaults;
            stats.unanswered = fetched.unanswered;
        }
    }
    expand_rows(&unique_rows, &inverse, dim, rows);
    Ok(stats)
}
