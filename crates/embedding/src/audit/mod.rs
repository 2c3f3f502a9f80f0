//! Whether tables are what they should be: versions and levels compared row by row.
//!
//! Rows are the same where all their bits are: a NaN is itself, and -0 is not 0.

mod audited_rows;
mod database_comparison;
mod row_comparison;
mod row_digests;
mod table_audit;
mod table_diff;

pub use audited_rows::AuditedRows;
pub use database_comparison::compare_table;
pub use row_comparison::{FoundKeys, RowComparison};
pub use row_digests::RowDigests;
pub use table_audit::{AuditStep, TableAudit, TableFindings};
pub use table_diff::{KeyDifference, TableDiff};
