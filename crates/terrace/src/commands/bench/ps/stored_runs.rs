//! Look-ups in a store on disk, beside a plain client of the same library.

use anyhow::Result;
use terrace_embedding::{BatchSizes, RowStore};

use super::lookups::{DrawnKeys, Get, Lookups};
use super::ps_options::PsArgs;
use super::report::{Beside, LevelRow};
use super::split_batch::split_batch;

/// Of the store and of the client alike.
pub const CACHE_BYTES: usize = 256 << 20;
pub const WRITE_BUFFER_BYTES: usize = 128 << 20;
pub const BATCHES: BatchSizes = BatchSizes { read_rows: 1 << 16, write_rows: 1 << 16 };

/// One draw of keys, which so many threads look up batch by batch, each batch together.
pub struct StoredRun<'a> {
    pub threads: usize,
    lookups: &'a Lookups<'a>,
    repeat: usize,
}

/// A line for each draw and number of threads.
pub fn each_run(
    args: &PsArgs,
    mut measure: impl FnMut(&StoredRun<'_>) -> Result<LevelRow>,
) -> Result<Vec<LevelRow>> {
    let mut measured = Vec::new();
    for draw in args.draws() {
        let batch = args.batch[0];
        let drawn = DrawnKeys::new(draw, args.stored_rows, 1, args.stored_lookups.max(batch));
        let lookups = &drawn.lookups(1, batch, args.dim);
        for threads in args.thread_counts() {
            measured.push(measure(&StoredRun { threads, lookups, repeat: args.repeat })?);
        }
    }
    Ok(measured)
}

impl StoredRun<'_> {
    /// A table in turns with a client, whose `get` each of its threads calls with part of a batch.
    pub fn beside(
        &self,
        client: &'static str,
        table: &dyn RowStore,
        get: impl Fn(&[i64], &mut [f32], &mut [bool]) -> Result<()> + Sync,
    ) -> Result<LevelRow> {
        let get_ours: &Get<'_> = &|keys, rows, found| Ok(table.get_many(keys, rows, found)?);
        let get_plain: &Get<'_> =
            &|keys, rows, found| split_batch(keys, rows, found, self.threads, &get);
        let [ours, plain] = self.lookups.rates(self.repeat, [get_ours, get_plain])?;
        let beside = Beside { name: client, rows_per_second: plain };
        Ok(LevelRow::get(self.lookups, ours, beside).with_threads(self.threads))
    }
}
