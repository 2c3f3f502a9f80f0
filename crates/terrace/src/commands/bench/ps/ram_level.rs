//! The level in memory, beside a plain array of rows.

use std::thread::available_parallelism;

use anyhow::Result;
use terrace_embedding::{
    OverflowConfig, OverflowPolicy, PartitionRule, RamStore, RamStoreConfig, RowStore,
};

use super::level_rows::{each_load, load_rows};
use super::lookups::{DrawnKeys, Get, Lookups};
use super::ps_options::PsArgs;
use super::report::{Beside, LevelReport, LevelRow};
use crate::byte_size::ByteSize;

/// Of a level whose configuration does not say.
const PARTITIONS_MOST: usize = 16;

pub fn measure(args: &PsArgs) -> Result<LevelReport> {
    let (rows, dim) = (args.rows, args.dim);
    let store = ram_store(rows, dim);
    let loaded = load_rows(&store, rows, dim)?;
    let mut plain = Vec::with_capacity(rows * dim);
    each_load(rows, dim, |_, rows| {
        plain.extend_from_slice(rows);
        Ok(())
    })?;
    let mut measured = vec![LevelRow::load(loaded, dim)];
    let drawn = args.draws().map(|draw| {
        let keys = args.lookups.max(args.largest_batch());
        DrawnKeys::new(draw, rows, args.most_threads(), keys)
    });
    let get_ours: &Get<'_> = &|keys, rows, found| Ok(store.get_many(keys, rows, found)?);
    let get_plain: &Get<'_> = &|keys, rows, found| {
        copy_rows(&plain, keys, rows, found);
        Ok(())
    };
    for lookups in all_lookups(args, &drawn) {
        let [ours, array] = lookups.rates(args.repeat, [get_ours, get_plain])?;
        let beside = Beside { name: "plain array", rows_per_second: array };
        measured.push(LevelRow::get(&lookups, ours, beside));
    }
    // After them: rows are not those of their keys any more.
    for lookups in all_lookups(args, &drawn).filter(|lookups| lookups.batch == args.batch[0]) {
        let rate = lookups.write_rate(args.repeat, |keys, rows| Ok(store.put_many(keys, rows)?))?;
        measured.push(LevelRow::update(&lookups, rate));
    }
    let bytes = ByteSize(store.bytes());
    let heading = format!("ram: {rows} rows of {dim} numbers in {bytes}");
    Ok(LevelReport { heading, rows: measured })
}

/// Of each draw, each size of batches and each number of threads.
fn all_lookups<'a>(args: &'a PsArgs, drawn: &'a [DrawnKeys]) -> impl Iterator<Item = Lookups<'a>> {
    drawn.iter().flat_map(move |keys| {
        args.batch.iter().flat_map(move |batch| {
            let threads = args.thread_counts().into_iter();
            threads.map(move |threads| keys.lookups(threads, *batch, args.dim))
        })
    })
}

fn ram_store(rows: usize, dim: usize) -> RamStore {
    let cores = available_parallelism().map_or(1, usize::from);
    RamStore::new(RamStoreConfig {
        dim,
        partitions: cores.min(PARTITIONS_MOST) as u32,
        rule: PartitionRule::Mix,
        overflow: OverflowConfig {
            margin: u64::MAX,
            policy: OverflowPolicy::EvictRandom,
            target: 0.8,
        },
        expected_rows: rows as u64,
    })
}

/// Keys are row numbers.
fn copy_rows(plain: &[f32], keys: &[i64], rows: &mut [f32], found: &mut [bool]) {
    let dim = rows.len() / keys.len();
    for ((key, row), found) in keys.iter().zip(rows.chunks_exact_mut(dim)).zip(found) {
        row.copy_from_slice(&plain[*key as usize * dim..][..dim]);
        *found = true;
    }
}
