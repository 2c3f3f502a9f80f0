//! What `terrace ps verify` prints.

use std::fmt;

use serde::Serialize;
use terrace_embedding::{RowComparison, TableFindings};

use super::text_table::TextTable;

#[derive(Debug, Serialize)]
pub struct VerifyReport {
    pub tables: Vec<VerifiedTable>,
}

#[derive(Debug, Serialize)]
pub struct VerifiedTable {
    pub table: String,
    /// Its name in databases.
    pub tag: String,
    #[serde(flatten)]
    pub findings: TableFindings,
}

impl VerifyReport {
    /// Tables that are not as they should be.
    pub fn wrong(&self) -> usize {
        self.tables.iter().filter(|table| !table.findings.problems.is_empty()).count()
    }
}

const TITLES: [&str; 8] =
    ["table", "state", "persistent", "files", "equal", "redis", "equal", "loaded"];

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = TextTable::new(TITLES);
        let count = |rows: Option<u64>| rows.map_or_else(|| "-".to_owned(), |it| it.to_string());
        for VerifiedTable { table: name, findings, .. } in &self.tables {
            let state = if findings.problems.is_empty() { "right" } else { "wrong" };
            let (files, redis) = (findings.files.as_ref(), findings.redis.as_ref());
            table.push([
                name.clone(),
                state.to_owned(),
                count(findings.persistent_rows),
                count(files.map(RowComparison::rows)),
                count(files.map(|it| it.equal)),
                count(redis.map(RowComparison::rows)),
                count(redis.map(|it| it.equal)),
                count(findings.record.as_ref().map(|record| record.loaded_rows)),
            ]);
        }
        write!(f, "{table}")?;
        for VerifiedTable { table, findings, .. } in &self.tables {
            for problem in &findings.problems {
                write!(f, "\n{table}: {problem}")?;
            }
            for note in &findings.notes {
                write!(f, "\n{table}: note: {note}")?;
            }
        }
        Ok(())
    }
}
