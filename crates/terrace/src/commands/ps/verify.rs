//! `terrace ps verify`: whether what levels have agrees, row by row.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use indicatif::ProgressBar;
use terrace_embedding::{
    AuditStep, PsConfig, RedisDatabase, RowDatabase, RowStore, TableAudit, TablePlan,
};

use super::level_access::{LibraryArgs, connect_redis, open_database};
use super::ps_file::read_ps_file;
use super::table_choice::full_name;
use super::verify_report::{VerifiedTable, VerifyReport};
use crate::commands::print_report::print_report;
use crate::open_folder::open_folder;
use crate::progress;

/// Check every row of every table: files, persistent store and Redis.
///
/// Every row of the files must be in the persistent store, and every row that Redis has must be
/// the persistent store's. Where update_source is configured, rows that are others than in the
/// files are counted and right. Without a persistent store, Redis is compared with the files.
#[derive(Args, Debug)]
#[command(after_long_help = "Example:
  terrace ps verify --ps ps.json

The status is 1 if a table is not as it should be, with its first keys. Run it while no updates
come: rows that change meanwhile may look different. A store of type embedded cannot be read
while a server has it open.")]
pub struct VerifyArgs {
    /// The configuration: a ps.json of HugeCTR.
    #[arg(long, value_name = "FILE")]
    ps: PathBuf,

    #[command(flatten)]
    library: LibraryArgs,

    /// Keys to name of each kind of difference.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    first: usize,

    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &VerifyArgs) -> Result<()> {
    let config = read_ps_file(&args.ps)?;
    if config.persistent.is_none() && config.redis.is_none() {
        bail!(
            "{} has neither a persistent_db nor Redis, so there is nothing to compare files with",
            args.ps.display()
        );
    }
    let database = open_database(&config, &args.library, "MODEL.TABLE")?;
    let redis = connect_redis(&config)?;
    let (plans, _) = TablePlan::of_all(&config, database.as_deref(), &open_folder)?;
    let levels = Levels { config: &config, database: database.as_deref(), redis: redis.as_ref() };
    let tables = plans.iter().map(|plan| levels.verify(plan, args.first)).collect();
    let report = VerifyReport { tables };
    print_report(&report, args.json)?;
    match report.wrong() {
        0 => Ok(()),
        wrong => bail!("{wrong} of {} tables are not as they should be", report.tables.len()),
    }
}

struct Levels<'a> {
    config: &'a PsConfig,
    database: Option<&'a dyn RowDatabase>,
    redis: Option<&'a RedisDatabase>,
}

impl Levels<'_> {
    fn verify(&self, plan: &TablePlan, first: usize) -> VerifiedTable {
        let redis = self.redis.map(|redis| redis.table(&plan.spec));
        let audit = TableAudit {
            spec: &plan.stored_spec(),
            files: plan.files.as_ref(),
            database: self.database,
            redis: redis.as_ref().map(|redis| redis as &dyn RowStore),
            has_updates: self.config.update_source.is_some(),
            first,
        };
        let mut bar: Option<(AuditStep, ProgressBar)> = None;
        let findings = audit.run(&mut |step, rows| {
            if bar.as_ref().is_none_or(|(of, _)| *of != step) {
                bar = Some((step, progress::rows(said(step), plan.rows)));
            }
            if let Some((_, bar)) = &bar {
                bar.set_position(rows);
            }
        });
        if let Some((_, bar)) = bar {
            bar.finish_and_clear();
        }
        let (table, tag) = (full_name(plan), plan.spec.tag.to_string());
        VerifiedTable { table, tag, findings }
    }
}

fn said(step: AuditStep) -> &'static str {
    match step {
        AuditStep::Persistent => "reading the persistent store",
        AuditStep::Files => "comparing the files",
        AuditStep::Redis => "comparing Redis",
    }
}
