//! Tables in RocksDB, beside a plain client with a handle of its own on the same folder.
//!
//! Rows are loaded and compacted before; both then open the folder to read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use terrace_embedding::{RocksDatabase, RocksDatabaseConfig, RowDatabase};
use terrace_rocksdb::{Family, RocksDb, RocksLibrary, RocksOptions};

use super::level_rows::{load_rows, table_spec};
use super::ps_options::PsArgs;
use super::report::{LevelReport, LevelRow};
use super::stored_runs::{BATCHES, CACHE_BYTES, WRITE_BUFFER_BYTES, each_run};

pub fn measure(args: &PsArgs, library: &Arc<RocksLibrary>, folder: &Path) -> Result<LevelReport> {
    let (rows, dim, spec) = (args.stored_rows, args.dim, table_spec(args.dim));
    let path = folder.join("rocksdb");
    let loaded = {
        let database = RocksDatabase::open(config(&path, false, args.most_threads()), library)?;
        load_rows(&*database.table(&spec)?, rows, dim)?
    };
    compact(library, &path, spec.tag.as_str(), args.most_threads())?;
    let mut measured = vec![LevelRow::load(loaded, dim)];
    measured.extend(each_run(args, |run| {
        let database = RocksDatabase::open(config(&path, true, run.threads), library)?;
        let handle = RocksDb::open(library, &path, &options(true, run.threads))?;
        let family = handle.family(spec.tag.as_str()).context("the table that was loaded")?;
        run.beside("rocksdb client", &*database.table(&spec)?, |keys, rows, found| {
            multi_get(&family, keys, rows, found)
        })
    })?);
    let version = library.version().map_or(String::new(), |version| format!(" {version}"));
    let heading = format!("rocksdb{version}: {rows} rows of {dim} numbers");
    Ok(LevelReport { heading, rows: measured })
}

fn config(path: &Path, read_only: bool, threads: usize) -> RocksDatabaseConfig {
    RocksDatabaseConfig {
        path: PathBuf::from(path),
        read_only,
        num_threads: threads as u32,
        block_cache_bytes: CACHE_BYTES,
        write_buffer_bytes: WRITE_BUFFER_BYTES,
        batches: BATCHES,
    }
}

fn options(read_only: bool, threads: usize) -> RocksOptions {
    RocksOptions {
        read_only,
        num_threads: threads as u32,
        block_cache_bytes: CACHE_BYTES,
        ..RocksOptions::default()
    }
}

/// So that nothing is merged while something is measured.
fn compact(library: &Arc<RocksLibrary>, path: &Path, table: &str, threads: usize) -> Result<()> {
    let handle = RocksDb::open(library, path, &options(false, threads))?;
    handle.family(table).context("the table that was loaded")?.compact()?;
    Ok(handle.close()?)
}

/// Keys in the order of the files, in one call.
fn multi_get(
    family: &Family<'_>,
    keys: &[i64],
    rows: &mut [f32],
    found: &mut [bool],
) -> Result<()> {
    let dim = rows.len() / keys.len();
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_unstable_by_key(|place| keys[*place].to_le_bytes());
    let bytes: Vec<u8> = order.iter().flat_map(|place| keys[*place].to_le_bytes()).collect();
    family.multi_get(&bytes, size_of::<i64>(), &mut |at, value| {
        let place = order[at];
        let row = rows[place * dim..][..dim].iter_mut();
        for (number, bytes) in row.zip(value.as_chunks().0) {
            *number = f32::from_le_bytes(*bytes);
        }
        found[place] = true;
    })?;
    Ok(())
}
