//! Tables in the embedded store, beside fjall itself with a folder of its own and the same rows:
//! two handles cannot have one folder.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use terrace_embedding::{EmbeddedDatabase, EmbeddedDatabaseConfig, RowDatabase};

use super::level_rows::{each_load, load_rows, table_spec};
use super::ps_options::PsArgs;
use super::report::{LevelReport, LevelRow};
use super::stored_runs::{BATCHES, CACHE_BYTES, WRITE_BUFFER_BYTES, each_run};

pub fn measure(args: &PsArgs, folder: &Path) -> Result<LevelReport> {
    let (rows, dim, spec) = (args.stored_rows, args.dim, table_spec(args.dim));
    let path = folder.join("embedded");
    let loaded = {
        let database = EmbeddedDatabase::open(config(&path, args.most_threads()))?;
        load_rows(&*database.table(&spec)?, rows, dim)?
    };
    let (_database, plain) = load_plain(&folder.join("fjall"), rows, dim)?;
    let mut measured = vec![LevelRow::load(loaded, dim)];
    measured.extend(each_run(args, |run| {
        let database = EmbeddedDatabase::open(config(&path, run.threads))?;
        run.beside("fjall client", &*database.table(&spec)?, |keys, rows, found| {
            get_each(&plain, keys, rows, found)
        })
    })?);
    let heading = format!("embedded: {rows} rows of {dim} numbers");
    Ok(LevelReport { heading, rows: measured })
}

fn config(path: &Path, threads: usize) -> EmbeddedDatabaseConfig {
    EmbeddedDatabaseConfig {
        path: PathBuf::from(path),
        read_only: false,
        num_threads: threads as u32,
        cache_bytes: CACHE_BYTES,
        write_buffer_bytes: WRITE_BUFFER_BYTES,
        batches: BATCHES,
    }
}

/// In as many pieces as ours.
fn load_plain(path: &Path, rows: usize, dim: usize) -> Result<(Database, Keyspace)> {
    let database = Database::builder(path).cache_size(CACHE_BYTES as u64).open()?;
    let rows_of_key = database.keyspace("rows", KeyspaceCreateOptions::default)?;
    each_load(rows, dim, |keys, rows| {
        let mut ingestion = rows_of_key.start_ingestion()?;
        for (key, row) in keys.iter().zip(rows.chunks_exact(dim)) {
            let value: Vec<u8> = row.iter().flat_map(|number| number.to_le_bytes()).collect();
            ingestion.write(key.to_be_bytes(), value)?;
        }
        Ok(ingestion.finish()?)
    })?;
    database.persist(PersistMode::SyncAll)?;
    Ok((database, rows_of_key))
}

fn get_each(plain: &Keyspace, keys: &[i64], rows: &mut [f32], found: &mut [bool]) -> Result<()> {
    let dim = rows.len() / keys.len();
    for ((key, row), found) in keys.iter().zip(rows.chunks_exact_mut(dim)).zip(found) {
        let Some(value) = plain.get(key.to_be_bytes())? else { continue };
        let (numbers, _) = value.as_chunks();
        ensure!(numbers.len() == dim, "a value of {} bytes", value.len());
        for (number, bytes) in row.iter_mut().zip(numbers) {
            *number = f32::from_le_bytes(*bytes);
        }
        *found = true;
    }
    Ok(())
}
