//! Loads a table's files into a database, and goes on where it was interrupted.
//!
//! The database's record says which version it has and how far it came. A version that is there is
//! not loaded again, whatever updates came since; another version takes the place of the whole
//! table. After each batch the rows are made to last and then the record says so: it never says
//! more than there is.

use super::file_version::FileVersion;
use super::load_error::LoadError;
use super::load_progress::LoadProgress;
use super::sparse_folder::{SparseBatch, SparseFolder};
use crate::row_database::RowDatabase;
use crate::table_record::TableRecord;
use crate::table_spec::TableSpec;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadOutcome {
    /// The database had this version.
    WasThere,
    /// So many rows were written; the others were there from an interrupted load.
    Loaded { rows: u64 },
}

/// Bytes of rows between two records: memory that a load takes.
const BATCH_BYTES: usize = 64 << 20;

/// `folders` are those of the tables that are served as one; keys of different ones are different.
pub fn load_table(
    spec: &TableSpec,
    folders: &[SparseFolder],
    database: &dyn RowDatabase,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<LoadOutcome, LoadError> {
    load_version(spec, &FileVersion::new(folders), database, progress)
}

/// As [`load_table`], of files whose hash may be known already.
pub fn load_version(
    spec: &TableSpec,
    files: &FileVersion<'_>,
    database: &dyn RowDatabase,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<LoadOutcome, LoadError> {
    let folders = files.folders();
    for folder in folders {
        let (found, wanted) = (folder.dim(), spec.dim);
        if found != wanted {
            let folder = folder.folder().to_owned();
            return Err(LoadError::OtherWidth { folder, found, wanted });
        }
    }
    let tag = spec.tag.as_str();
    let stamp = files.stamp();
    let record = database.record(tag)?;
    let start = match &record {
        Some(record) if record.stamp.as_deref() == Some(&stamp.text) => {
            if record.is_loaded {
                return Ok(LoadOutcome::WasThere);
            }
            record.loaded_rows
        }
        Some(record) if record.is_loaded && record.version.is_some() => {
            if record.version.as_deref() == Some(files.hash(progress)?) {
                let record = TableRecord { stamp: Some(stamp.text.clone()), ..record.clone() };
                database.write_record(tag, &record)?;
                return Ok(LoadOutcome::WasThere);
            }
            0
        }
        _ => 0,
    };
    if start == 0 && record.is_some() {
        database.remove_table(tag)?;
    }
    let rows = load_from(spec, files, database, start, progress)?;
    Ok(LoadOutcome::Loaded { rows })
}

fn load_from(
    spec: &TableSpec,
    files: &FileVersion<'_>,
    database: &dyn RowDatabase,
    start: u64,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<u64, LoadError> {
    let (tag, table) = (spec.tag.as_str(), database.table(spec)?);
    let (folders, stamp) = (files.folders(), files.stamp());
    let of = folders.iter().map(SparseFolder::count).fold(0, u64::saturating_add);
    let mut record = TableRecord {
        stamp: Some(stamp.text.clone()),
        version_time_ms: stamp.time_ms,
        loaded_rows: start,
        ..TableRecord::new(spec)
    };
    database.write_record(tag, &record)?;
    let batch_rows = (BATCH_BYTES / spec.row_bytes().max(1)).max(1);
    let mut batch = SparseBatch::default();
    let mut before = 0;
    for folder in folders {
        while record.loaded_rows < before + folder.count() {
            let at = record.loaded_rows - before;
            folder.read(at, batch_rows, spec.key_kind, &mut batch)?;
            table.load_many(&batch.keys, &batch.rows)?;
            record.loaded_rows += batch.keys.len() as u64;
            database.write_record(tag, &record)?;
            progress(LoadProgress::Loaded { rows: record.loaded_rows, of });
        }
        before += folder.count();
    }
    record.version = Some(files.hash(&mut |_| ())?.to_owned());
    record.is_loaded = true;
    database.write_record(tag, &record)?;
    Ok(record.loaded_rows - start)
}
