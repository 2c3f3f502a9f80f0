//! Whether what the levels have of a table agrees: its files, its persistent store and Redis.
//!
//! Every row is read. Nothing is written, and no row counts as used.

use std::sync::Arc;

use serde::Serialize;
use terrace_tiers::TierError;

use super::audited_rows::AuditedRows;
use super::row_comparison::{FoundKeys, RowComparison};
use crate::load::{LoadError, VersionStamp, content_hash};
use crate::row_database::RowDatabase;
use crate::row_store::RowStore;
use crate::server::TableFiles;
use crate::table_record::TableRecord;
use crate::table_spec::TableSpec;

pub struct TableAudit<'a> {
    pub spec: &'a TableSpec,
    pub files: Option<&'a TableFiles>,
    pub database: Option<&'a dyn RowDatabase>,
    pub redis: Option<&'a dyn RowStore>,
    /// Whether updates change rows after they were loaded: then levels may differ from files.
    pub has_updates: bool,
    /// Keys that are remembered of each kind of difference.
    pub first: usize,
}

/// What an audit is at, with the rows it went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditStep {
    /// Rows of the persistent store are read.
    Persistent,
    /// Files are compared with what was loaded.
    Files,
    /// Redis is compared with the level below it.
    Redis,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TableFindings {
    /// What the persistent store says of the table.
    pub record: Option<TableRecord>,
    /// Rows of the persistent store.
    pub persistent_rows: Option<u64>,
    /// Rows of the files, looked up in the persistent store, or in Redis where there is none.
    pub files: Option<RowComparison>,
    /// Rows of Redis, looked up in the persistent store.
    pub redis: Option<RowComparison>,
    /// What is not as it should be; empty if the table is right.
    pub problems: Vec<String>,
    /// What should be known of a table that is right.
    pub notes: Vec<String>,
}

impl TableAudit<'_> {
    /// Goes through all levels. A level that cannot be read is a problem, not an error.
    pub fn run(&self, progress: &mut dyn FnMut(AuditStep, u64)) -> TableFindings {
        let mut findings = TableFindings::default();
        let persistent = match self.database.map(|database| self.open(database, &mut findings)) {
            Some(Ok(store)) => store,
            Some(Err(error)) => {
                findings.problems.push(error.to_string());
                None
            }
            None => None,
        };
        if let Some(store) = &persistent {
            let mut rows = 0;
            let scanned = AuditedRows::Level(&**store).scan(self.spec.key_kind, &mut |keys, _| {
                rows += keys.len() as u64;
                progress(AuditStep::Persistent, rows);
                Ok(())
            });
            findings.persistent_rows = Some(rows);
            findings.take(scanned);
        }
        if self.database.is_none() || persistent.is_some() {
            self.compare_files(persistent.as_deref(), &mut findings, progress);
        }
        if let (Some(redis), Some(store)) = (self.redis, persistent.as_deref()) {
            let step = &mut |rows| progress(AuditStep::Redis, rows);
            let compared = self.compare(AuditedRows::Level(redis), store, step);
            findings.redis = findings.take(compared);
            findings.judge_redis();
        }
        findings
    }

    fn compare(
        &self,
        rows: AuditedRows<'_>,
        store: &dyn RowStore,
        progress: &mut dyn FnMut(u64),
    ) -> Result<RowComparison, LoadError> {
        RowComparison::of(rows, store, self.spec, self.first, progress)
    }

    /// `None` where the store has no such table, or one that cannot be read as this.
    fn open(
        &self,
        database: &dyn RowDatabase,
        findings: &mut TableFindings,
    ) -> Result<Option<Arc<dyn RowStore>>, TierError> {
        let tag = self.spec.tag.as_str();
        let Some(record) = database.record(tag)? else {
            let name = database.name();
            let problem = format!("the {name} store has no such table; a server loads it");
            findings.problems.push(problem);
            return Ok(None);
        };
        findings.record = Some(record);
        database.table(self.spec).map(Some)
    }

    fn compare_files(
        &self,
        persistent: Option<&dyn RowStore>,
        findings: &mut TableFindings,
        progress: &mut dyn FnMut(AuditStep, u64),
    ) {
        let Some(files) = self.files else {
            findings.notes.push("its files are not here, and were not compared".to_owned());
            return;
        };
        let Some(store) = persistent.or(self.redis) else { return };
        if persistent.is_some() {
            let version = findings.record.as_ref().map(|record| version_of(record, files));
            match findings.take(version.transpose()).flatten() {
                Some(Version::Same) | None => {}
                Some(Version::Unfinished { rows }) => findings.problems.push(format!(
                    "{rows} rows were loaded when that was interrupted; the next start goes on"
                )),
                Some(Version::Other) => findings.problems.push(
                    "the files are another version than the one that was loaded; the next start \
                     loads them"
                        .to_owned(),
                ),
            }
        }
        let step = &mut |rows| progress(AuditStep::Files, rows);
        let compared = self.compare(AuditedRows::Files(&files.folders), store, step);
        findings.files = findings.take(compared);
        findings.judge_files(persistent.is_some(), self.has_updates);
    }
}

/// Of a table's files, by the record of what was loaded.
enum Version {
    Same,
    Other,
    Unfinished { rows: u64 },
}

fn version_of(record: &TableRecord, files: &TableFiles) -> Result<Version, LoadError> {
    let stamp = VersionStamp::of(&files.folders).text;
    if record.stamp.as_ref() == Some(&stamp) {
        let rows = record.loaded_rows;
        return Ok(if record.is_loaded { Version::Same } else { Version::Unfinished { rows } });
    }
    let Some(version) = &record.version else { return Ok(Version::Other) };
    let hash = content_hash(&files.folders, &mut |_| ())?;
    Ok(if *version == hash { Version::Same } else { Version::Other })
}

impl TableFindings {
    /// An error becomes a problem.
    fn take<T>(&mut self, result: Result<T, LoadError>) -> Option<T> {
        result.map_err(|error| self.problems.push(error.to_string())).ok()
    }

    fn judge_files(&mut self, is_whole: bool, has_updates: bool) {
        let Some(files) = &self.files else { return };
        if is_whole && files.missing.count > 0 {
            let missing = described(&files.missing);
            self.problems.push(format!("the persistent store has not got {missing} of the files"));
        }
        if files.different.count == 0 {
            return;
        }
        let different = described(&files.different);
        match has_updates {
            true => self.notes.push(format!(
                "{different} are other ones than in the files, as is right after updates"
            )),
            false => self.problems.push(format!(
                "{different} are other ones than in the files, and update_source brings none"
            )),
        }
    }

    fn judge_redis(&mut self) {
        let Some(redis) = &self.redis else { return };
        for (keys, what) in [
            (&redis.missing, "that Redis has are not in the persistent store"),
            (&redis.different, "are other ones in Redis than in the persistent store"),
        ] {
            if keys.count > 0 {
                self.problems.push(format!("{} {what}", described(keys)));
            }
        }
    }
}

/// "2 rows (keys 4, 9)".
fn described(keys: &FoundKeys) -> String {
    let first = keys.first.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let more = if keys.count > keys.first.len() as u64 { ", ..." } else { "" };
    match keys.first.is_empty() {
        true => format!("{} rows", keys.count),
        false => format!("{} rows (keys {first}{more})", keys.count),
    }
}
