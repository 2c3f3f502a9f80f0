//! `terrace ps get`: the rows of keys, as each level has them.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use terrace_embedding::{PsConfig, RowDatabase, RowStore, SparseFolder, TablePlan};

use super::get_report::{FoundRow, GetReport, KeyReport, LevelName};
use super::level_access::{LibraryArgs, connect_redis, open_database};
use super::ps_file::read_ps_file;
use super::table_choice::{find_table, full_name};
use crate::commands::print_report::print_report;
use crate::open_folder::open_folder;

/// Show the rows of keys as each level has them, and in what they differ.
///
/// Redis, the persistent store and the table's files are asked one by one. What a server has in its
/// memory or on a GPU only that server knows. No row counts as used by this.
#[derive(Args, Debug)]
#[command(after_long_help = "Example:
  terrace ps get --ps ps.json --table dcn.sparse_embedding1 42 -7
  terrace ps get --ps ps.json --table dcn.sparse_embedding1 42 --json

The status is 1 if a level could not be asked. A store of type embedded that a server has open
cannot be read beside it: ask the server, with POST /v1/tables/MODEL.TABLE/lookup. A RocksDB can.")]
pub struct GetArgs {
    /// The configuration: a ps.json of HugeCTR.
    #[arg(long, value_name = "FILE")]
    ps: PathBuf,

    /// MODEL.TABLE, or the table's name where only one has it.
    #[arg(long, value_name = "NAME")]
    table: String,

    /// Keys.
    #[arg(required = true, value_name = "KEY", allow_negative_numbers = true)]
    keys: Vec<i64>,

    #[command(flatten)]
    library: LibraryArgs,

    /// Print all numbers, as JSON.
    #[arg(long)]
    json: bool,
}

/// The rows of all keys on one level, or why there are none.
type LevelRows = Result<Vec<Option<Vec<f32>>>>;

pub fn run(args: &GetArgs) -> Result<()> {
    let config = read_ps_file(&args.ps)?;
    config.key_kind.check(&args.keys)?;
    let database = open_database(&config, &args.library, &args.table);
    let known = database.as_ref().ok().and_then(|it| it.as_deref());
    let (plans, warnings) = TablePlan::of_all(&config, known, &open_folder)?;
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    let plan = find_table(&plans, &args.table)?;
    let mut levels: Vec<(LevelName, LevelRows)> = Vec::new();
    if config.redis.is_some() {
        levels.push((LevelName::Redis, of_redis(&config, plan, &args.keys)));
    }
    if config.persistent.is_some() {
        let rows = database.and_then(|database| match database {
            Some(database) => of_database(&*database, plan, &args.keys),
            None => Ok(vec![None; args.keys.len()]),
        });
        levels.push((LevelName::Persistent, rows));
    }
    if let Some(files) = &plan.files {
        levels.push((LevelName::Files, of_files(&files.folders, &args.keys)));
    }
    let (report, failed) = report(&config, plan, &args.keys, levels);
    print_report(&report, args.json)?;
    match failed.is_empty() {
        true => Ok(()),
        false => bail!(failed.join("; ")),
    }
}

fn report(
    config: &PsConfig,
    plan: &TablePlan,
    keys: &[i64],
    levels: Vec<(LevelName, LevelRows)>,
) -> (GetReport, Vec<String>) {
    let mut failed = Vec::new();
    let mut reports: Vec<KeyReport> = keys.iter().map(|key| KeyReport::new(*key)).collect();
    for (level, rows) in levels {
        match rows {
            Ok(rows) => {
                for (report, row) in reports.iter_mut().zip(rows) {
                    report.levels.push(FoundRow { level, row, differs: None });
                }
            }
            Err(error) => failed.push(format!("{level}: {error:#}")),
        }
    }
    reports.iter_mut().for_each(KeyReport::compare);
    let report = GetReport {
        table: full_name(plan),
        tag: plan.spec.tag.to_string(),
        dim: plan.spec.dim,
        default_value: plan.spec.default_value,
        has_ram: config.ram.is_some(),
        keys: reports,
    };
    (report, failed)
}

fn of_redis(config: &PsConfig, plan: &TablePlan, keys: &[i64]) -> LevelRows {
    match connect_redis(config)? {
        Some(redis) => of_store(&redis.table(&plan.spec), plan.spec.dim, keys),
        None => Ok(vec![None; keys.len()]),
    }
}

fn of_database(database: &dyn RowDatabase, plan: &TablePlan, keys: &[i64]) -> LevelRows {
    // Opening a table that is not there would make it.
    let stored = plan.stored_spec();
    if database.record(stored.tag.as_str())?.is_none() {
        return Ok(vec![None; keys.len()]);
    }
    of_store(&*database.table(&stored)?, stored.dim, keys)
}

fn of_store(store: &dyn RowStore, dim: usize, keys: &[i64]) -> LevelRows {
    let (mut rows, mut found) = (vec![0.0; keys.len() * dim], vec![false; keys.len()]);
    store.get_many(keys, &mut rows, &mut found)?;
    let rows = rows.chunks_exact(dim).zip(found);
    Ok(rows.map(|(row, found)| found.then(|| row.to_vec())).collect())
}

/// Of tables that are served as one, a key is in one.
fn of_files(folders: &[SparseFolder], keys: &[i64]) -> LevelRows {
    let mut all: Vec<Option<Vec<f32>>> = vec![None; keys.len()];
    for folder in folders {
        for (row, found) in all.iter_mut().zip(folder.find(keys)?) {
            *row = found.or(row.take());
        }
    }
    Ok(all)
}
