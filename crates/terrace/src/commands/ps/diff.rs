//! `terrace ps diff`: in what two versions of a table differ.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;
use terrace_embedding::{
    AuditedRows, KeyDifference, KeyKind, PsConfig, RowDigests, RowStore, SparseFolder, TableDiff,
    TablePlan,
};

use super::level_access::{LibraryArgs, connect_redis, open_database};
use super::ps_file::read_ps_file;
use super::table_choice::find_table;
use crate::commands::print_report::print_report;
use crate::open_folder::{model_path, open_folder};
use crate::progress;

/// Compare two versions of a table: two folders, or a folder and what a level has.
///
/// Rows are read once and not kept: memory is 16 bytes for each key of both, and 8 more for each
/// key of one while they are sorted. Rows are the same where a hash of 64 bits of them is.
#[derive(Args, Debug)]
#[command(after_long_help = "Example:
  terrace ps diff monday/dcn0_sparse.model tuesday/dcn0_sparse.model
  terrace ps diff tuesday/dcn0_sparse.model --ps ps.json --table dcn.sparse_embedding1 \\
      --level persistent

The status is 0 if they are equal, and 1 if they differ or something failed.")]
pub struct DiffArgs {
    /// Version A: a folder with the files key and emb_vector.
    #[arg(value_name = "FOLDER_A")]
    a: String,

    /// Version B: another such folder.
    #[arg(value_name = "FOLDER_B", required_unless_present = "ps", conflicts_with = "ps")]
    b: Option<String>,

    /// Version B is what a level of this configuration has.
    #[arg(long, value_name = "FILE", requires_all = ["table", "level"])]
    ps: Option<PathBuf>,

    /// MODEL.TABLE, or the table's name where only one has it.
    #[arg(long, value_name = "NAME", requires = "ps")]
    table: Option<String>,

    /// The level.
    #[arg(long, value_name = "LEVEL", requires = "ps")]
    level: Option<ComparedLevel>,

    #[command(flatten)]
    library: LibraryArgs,

    /// Keys to name, the smallest that differ.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    first: usize,

    /// Print the counts as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ComparedLevel {
    Persistent,
    Redis,
}

pub fn run(args: &DiffArgs) -> Result<()> {
    let report = match (&args.b, &args.ps, &args.table, args.level) {
        (Some(b), ..) => with_folder(args, b)?,
        (None, Some(ps), Some(table), Some(level)) => {
            with_level(args, &read_ps_file(ps)?, table, level)?
        }
        _ => unreachable!("the parser asks for one of both"),
    };
    print_report(&report, args.json)?;
    match report.diff.different() {
        0 => Ok(()),
        keys => bail!("they differ in {keys} keys"),
    }
}

fn with_folder(args: &DiffArgs, b: &str) -> Result<DiffReport> {
    let [a_folder, b_folder] = [open(&args.a)?, open(b)?];
    let (a_dim, b_dim) = (a_folder.dim(), b_folder.dim());
    if a_dim != b_dim {
        bail!("rows of {} have {a_dim} numbers, and those of {b} have {b_dim}", args.a);
    }
    let a = digests(&a_folder, KeyKind::I64, "reading A")?;
    let b_rows = digests(&b_folder, KeyKind::I64, "reading B")?;
    Ok(DiffReport::new(&args.a, b, TableDiff::between(&a, &b_rows, args.first)))
}

fn with_level(
    args: &DiffArgs,
    config: &PsConfig,
    table: &str,
    level: ComparedLevel,
) -> Result<DiffReport> {
    let database = match level {
        ComparedLevel::Persistent => open_database(config, &args.library, table)?,
        ComparedLevel::Redis => None,
    };
    let (plans, _) = TablePlan::of_all(config, database.as_deref(), &open_folder)?;
    let plan = find_table(&plans, table)?;
    let spec = &plan.spec;
    let absent = |level: &str| format!("the configuration has no level {level}");
    let store: Arc<dyn RowStore> = match level {
        ComparedLevel::Persistent => {
            let database = database.with_context(|| absent("persistent (persistent_db)"))?;
            let stored = plan.stored_spec();
            if database.record(stored.tag.as_str())?.is_none() {
                bail!("the {} store has no table {}", database.name(), spec.tag);
            }
            database.table(&stored)?
        }
        ComparedLevel::Redis => {
            let redis = connect_redis(config)?;
            let redis =
                redis.with_context(|| absent("redis (volatile_db of type redis_cluster)"))?;
            Arc::new(redis.table(spec))
        }
    };
    let folder = open_folder(&model_path(&args.a), Some(spec.dim))?;
    let a = digests(&folder, spec.key_kind, "reading A")?;
    let bar = progress::rows("reading B", store.count()?);
    let read = &mut |rows| bar.set_position(rows);
    let b = RowDigests::read(AuditedRows::Level(&*store), spec.key_kind, spec.dim, read)?;
    bar.finish_and_clear();
    let name = format!("{} of {}", spec.tag, store.name());
    Ok(DiffReport::new(&args.a, &name, TableDiff::between(&a, &b, args.first)))
}

fn open(folder: &str) -> Result<SparseFolder> {
    Ok(open_folder(&model_path(folder), None)?)
}

fn digests(folder: &SparseFolder, kind: KeyKind, what: &'static str) -> Result<RowDigests> {
    let bar = progress::rows(what, folder.count());
    let rows = AuditedRows::Files(std::slice::from_ref(folder));
    let read = &mut |rows| bar.set_position(rows);
    let digests = RowDigests::read(rows, kind, folder.dim(), read)?;
    bar.finish_and_clear();
    Ok(digests)
}

#[derive(Debug, Serialize)]
struct DiffReport {
    a: String,
    b: String,
    #[serde(flatten)]
    diff: TableDiff,
}

impl DiffReport {
    fn new(a: &str, b: &str, diff: TableDiff) -> Self {
        DiffReport { a: a.to_owned(), b: b.to_owned(), diff }
    }
}

impl fmt::Display for DiffReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TableDiff { only_in_a, only_in_b, changed, equal, first } = &self.diff;
        writeln!(f, "A is {}\nB is {}", self.a, self.b)?;
        writeln!(f, "only in A  {only_in_a}\nonly in B  {only_in_b}")?;
        write!(f, "changed    {changed}\nequal      {equal}")?;
        for (key, difference) in first {
            let difference = match difference {
                KeyDifference::OnlyInA => "only in A",
                KeyDifference::OnlyInB => "only in B",
                KeyDifference::Changed => "changed",
            };
            write!(f, "\nkey {key}: {difference}")?;
        }
        let left = self.diff.different() - first.len() as u64;
        if left > 0 { write!(f, "\nand {left} keys more") } else { Ok(()) }
    }
}
