//! Rows of a batch's keys, pooled by slot in host memory.
//!
//! They go from the hot caches straight to where the network reads them. Where a table has none, or
//! a key was not there, its rows are looked up as the table is configured.

use std::sync::Arc;
use std::time::Instant;

use terrace_device::{View, ViewMut};
use terrace_embedding::{HostRows, MissingRows, ServedTable};
use terrace_kernels::{Combiner, Ops, PoolHostArgs, PoolRowsArgs};

use super::predict_tables::PredictTables;
use super::samples::TableKeys;
use crate::error::Error;

pub struct HostPooling {
    tables: PredictTables,
    /// Of the tables' hot caches, which it asks.
    cache: usize,
    missing: MissingMemory,
}

/// For look-ups of keys that are not all in a hot cache.
#[derive(Default)]
struct MissingMemory {
    rows: HostRows,
    /// The row of each key.
    index: Vec<i32>,
    /// Of each table, look-ups until its hot cache is trusted again, after one that missed.
    distrust: Vec<u32>,
}

/// A look-up that missed is followed by others that do: so many are done without a trial.
const DISTRUSTED: u32 = 15;

impl HostPooling {
    pub fn new(tables: PredictTables, cache: usize) -> Self {
        let distrust = vec![0; tables.tables.len()];
        HostPooling { tables, cache, missing: MissingMemory { distrust, ..Default::default() } }
    }

    /// Rows of a table · out: act `[samples, slots * dim]`
    pub fn pool(
        &mut self,
        ops: &Ops,
        at: usize,
        keys: &TableKeys,
        combiner: Combiner,
        mut out: ViewMut<'_>,
    ) -> Result<(), Error> {
        let HostPooling { tables, cache, missing } = self;
        let table = &tables.tables[at];
        let begun = Instant::now();
        let is_trusted = missing.distrust[at] == 0;
        if is_trusted && pool_cached(ops, table, *cache, keys, combiner, out.reborrow()) {
            table.count_cached(keys.keys().len(), begun);
            return Ok(());
        }
        missing.look_up(at, table, *cache, keys)?;
        ops.pool_rows(&missing.args(keys, table.spec().dim, combiner), out);
        Ok(())
    }
}

/// Whether all keys were in the table's hot cache.
fn pool_cached(
    ops: &Ops,
    table: &ServedTable,
    cache: usize,
    keys: &TableKeys,
    combiner: Combiner,
    out: ViewMut<'_>,
) -> bool {
    let args = PoolHostArgs {
        keys: keys.keys(),
        offsets: keys.offsets(),
        combiner,
        default_value: table.spec().default_value,
    };
    table.host_cache(cache).is_some_and(|cache| cache.pool(ops, args, out))
}

impl MissingMemory {
    fn look_up(
        &mut self,
        at: usize,
        table: &Arc<ServedTable>,
        cache: usize,
        keys: &TableKeys,
    ) -> Result<(), Error> {
        let MissingMemory { rows, index, distrust } = self;
        let stats = table.look_up_unique(cache, keys.keys(), MissingRows::AsConfigured, rows)?;
        distrust[at] = match stats.hits == stats.unique {
            true => distrust[at].saturating_sub(1),
            false => DISTRUSTED,
        };
        index.clear();
        index.extend(rows.inverse().iter().map(|row| *row as i32));
        Ok(())
    }

    /// What was looked up last.
    fn args<'a>(&'a self, keys: &'a TableKeys, dim: usize, combiner: Combiner) -> PoolRowsArgs<'a> {
        PoolRowsArgs {
            rows: View::of(self.rows.rows(), [self.rows.unique(), dim]),
            index: View::of(&self.index, [self.index.len()]),
            offsets: View::of(keys.offsets(), [keys.offsets().len()]),
            combiner,
        }
    }
}
