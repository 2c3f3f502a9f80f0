//! Whether one database has what another has.

use super::audited_rows::AuditedRows;
use super::row_comparison::RowComparison;
use crate::load::LoadError;
use crate::persistent::spec_of;
use crate::row_database::RowDatabase;

/// Looks all rows of a table of `from` up in `to`; `None` where `from` knows nothing of it. Calls
/// `progress` with how many were compared.
pub fn compare_table(
    from: &dyn RowDatabase,
    to: &dyn RowDatabase,
    tag: &str,
    first: usize,
    progress: &mut dyn FnMut(u64),
) -> Result<Option<RowComparison>, LoadError> {
    let Some(record) = from.record(tag)? else { return Ok(None) };
    let spec = spec_of(tag, &record)?;
    let (source, copy) = (from.table(&spec)?, to.table(&spec)?);
    RowComparison::of(AuditedRows::Level(&*source), &*copy, &spec, first, progress).map(Some)
}
