//! Copying all tables of one database into another.
//!
//! A table that is under way is marked in its record, so that one that was interrupted is known,
//! removed and copied again. What is there and not from here is never touched.

use terrace_tiers::TierError;

use crate::key_kind::KeyKind;
use crate::row_database::RowDatabase;
use crate::row_store::RowStore;
use crate::table_record::TableRecord;
use crate::table_spec::TableSpec;
use crate::table_tag::TableTag;

/// The version of a table that is not whole yet. No file has this name.
const UNDER_WAY: &str = "//terrace ps migrate";
/// Of rows that are read, and then written, at once.
const BATCH_BYTES: usize = 64 << 20;

/// Copies rows and records, and reads what it wrote. A table that is complete in `to` by its record
/// is left as it is. `progress` is called with a table's tag and the rows copied so far.
pub fn migrate(
    from: &dyn RowDatabase,
    to: &dyn RowDatabase,
    progress: &mut dyn FnMut(&str, u64),
) -> Result<(), TierError> {
    for tag in from.tags()? {
        // Without a row and a record nobody knows what the table is like.
        let Some(record) = from.record(&tag)? else { continue };
        if make_way(to, &tag)? {
            let spec = spec_of(&tag, &record)?;
            let rows = copy(from, to, &spec, &mut |rows| progress(&tag, rows))?;
            to.write_record(&tag, &record_of_copy(record, rows))?;
        }
    }
    Ok(())
}

/// Whether the table is to be copied; then it is gone from `to`.
fn make_way(to: &dyn RowDatabase, tag: &str) -> Result<bool, TierError> {
    let Some(record) = to.record(tag)? else { return Ok(true) };
    if record.is_loaded {
        return Ok(false);
    }
    let is_under_way = record.version.as_deref() == Some(UNDER_WAY);
    if !is_under_way && count_rows(&*to.table(&spec_of(tag, &record)?)?)? > 0 {
        return Err(TierError::Protocol(format!(
            "table {tag} has rows in both databases, and its record in the {} one does not say \
             that they are complete; remove it there to copy it",
            to.name()
        )));
    }
    to.remove_table(tag)?;
    Ok(true)
}

/// The rows that were copied.
fn copy(
    from: &dyn RowDatabase,
    to: &dyn RowDatabase,
    spec: &TableSpec,
    progress: &mut dyn FnMut(u64),
) -> Result<u64, TierError> {
    let (source, copied) = (from.table(spec)?, to.table(spec)?);
    let under_way = TableRecord { version: Some(UNDER_WAY.to_owned()), ..TableRecord::new(spec) };
    to.write_record(spec.tag.as_str(), &under_way)?;
    let mut rows = 0;
    progress(rows);
    source.scan((BATCH_BYTES / spec.row_bytes()).max(1), &mut |keys, numbers| {
        copied.load_many(keys, numbers)?;
        rows += keys.len() as u64;
        progress(rows);
        Ok(())
    })?;
    copied.sync()?;
    let found = count_rows(&*copied)?;
    if found != rows {
        return Err(TierError::Protocol(format!(
            "table {}: {rows} rows were copied, and {found} are in the {} database; check its \
             disk, then start again",
            spec.tag,
            to.name()
        )));
    }
    Ok(rows)
}

/// One by one: stores on disks guess.
fn count_rows(store: &dyn RowStore) -> Result<u64, TierError> {
    let mut rows = 0;
    store.scan(4096, &mut |keys, _| {
        rows += keys.len() as u64;
        Ok(())
    })?;
    Ok(rows)
}

/// As that of the table it is a copy of. One that only updates have written, or another program,
/// is complete from here on; one whose file was being loaded is not.
fn record_of_copy(record: TableRecord, rows: u64) -> TableRecord {
    match (&record.version, &record.stamp) {
        (None, None) => TableRecord { loaded_rows: rows, is_loaded: true, ..record },
        _ => record,
    }
}

/// What a table is like, by its record.
pub fn spec_of(tag: &str, record: &TableRecord) -> Result<TableSpec, TierError> {
    let tag = TableTag::parse(tag)
        .ok_or_else(|| TierError::Protocol(format!("{tag:?} is no name of a table")))?;
    let key_kind =
        if record.key_bytes == KeyKind::U32.bytes() { KeyKind::U32 } else { KeyKind::I64 };
    Ok(TableSpec { tag, key_kind, dim: record.dim, default_value: 0.0 })
}
