//! Tables compared with their files and between levels, with real stores.

use std::path::Path;
use std::sync::Arc;

use terrace_embedding::{
    AuditStep, AuditedRows, KeyKind, PersistentKind, RowComparison, RowDatabase, SparseFolder,
    TableAudit, TableFiles, TableFindings, TableSpec, TagStyle, VersionStamp, load_table,
};

use crate::served::{DIM, row, rows, write_files};

fn spec() -> TableSpec {
    let tag = TagStyle::Hps.table_tag("m", "t");
    TableSpec { tag, key_kind: KeyKind::I64, dim: DIM, default_value: 0.0 }
}

fn files(folder: &Path) -> TableFiles {
    let folders = vec![SparseFolder::open(folder, Some(DIM)).expect("files")];
    let stamp = VersionStamp::of(&folders);
    TableFiles { folders, stamp }
}

fn database(folder: &Path) -> Arc<dyn RowDatabase> {
    let folder = terrace_embedding::DatabaseFolder {
        path: folder.to_owned(),
        kind: PersistentKind::Embedded,
    };
    folder.open_to_write(&[]).expect("a database")
}

fn audit(
    database: &dyn RowDatabase,
    files: Option<&TableFiles>,
    has_updates: bool,
) -> TableFindings {
    let spec = spec();
    let audit = TableAudit {
        spec: &spec,
        files,
        database: Some(database),
        redis: None,
        has_updates,
        first: 2,
    };
    audit.run(&mut |_, _| ())
}

#[test]
fn a_table_that_was_loaded_is_right_and_updates_are_noted() {
    let folder = tempfile::tempdir().unwrap();
    let (of_files, of_rows) = (folder.path().join("files"), folder.path().join("rows"));
    let keys: Vec<i64> = (0..100).collect();
    write_files(&of_files, &keys, 1);
    let (files, database) = (files(&of_files), database(&of_rows));
    let none = audit(&*database, Some(&files), false);
    assert!(none.problems.len() == 1 && none.problems[0].contains("no such table"), "{none:?}");

    load_table(&spec(), &files.folders, &*database, &mut |_| ()).unwrap();
    let mut steps = Vec::new();
    let spec = spec();
    let whole = TableAudit {
        spec: &spec,
        files: Some(&files),
        database: Some(&*database),
        redis: None,
        has_updates: false,
        first: 2,
    };
    let right = whole.run(&mut |step, rows| steps.push((step, rows)));
    assert_eq!((right.problems.len(), right.persistent_rows), (0, Some(100)), "{right:?}");
    assert_eq!(right.files.unwrap().equal, 100);
    assert_eq!(steps, [(AuditStep::Persistent, 100), (AuditStep::Files, 100)]);

    let store = database.table(&spec).unwrap();
    store.put_many(&[3, 4, 5, 200], &rows(&[3, 4, 5, 200], 2)).unwrap();
    let updated = audit(&*database, Some(&files), true);
    assert!(updated.problems.is_empty() && updated.persistent_rows == Some(101), "{updated:?}");
    assert!(updated.notes[0].starts_with("3 rows (keys 3, 4, ...) are other"), "{updated:?}");
    let without = audit(&*database, Some(&files), false);
    assert!(without.problems[0].contains("update_source brings none"), "{without:?}");

    store.remove_many(&[9]).unwrap();
    let gone = audit(&*database, Some(&files), true);
    assert_eq!(gone.problems, ["the persistent store has not got 1 rows (keys 9) of the files"]);
    let elsewhere = audit(&*database, None, true);
    assert!(elsewhere.problems.is_empty() && elsewhere.notes.len() == 1, "{elsewhere:?}");

    write_files(&of_files, &keys, 7);
    let newer = audit(&*database, Some(&self::files(&of_files)), true);
    assert!(newer.problems.iter().any(|it| it.contains("another version")), "{newer:?}");
}

#[test]
fn rows_are_compared_bit_by_bit_and_the_first_keys_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (database(&folder.path().join("from")), database(&folder.path().join("to")));
    let spec = spec();
    let [from, to] = [from, to].map(|database| database.table(&spec).unwrap());
    let keys: Vec<i64> = (-20..20).collect();
    from.put_many(&keys, &rows(&keys, 1)).unwrap();
    to.put_many(&keys[..30], &rows(&keys[..30], 1)).unwrap();
    let mut changed = row(7, 1);
    changed[3] = -changed[3];
    to.put_many(&[7], &changed).unwrap();
    let mut compared = 0;
    let rows = AuditedRows::Level(&*from);
    let found = RowComparison::of(rows, &*to, &spec, 3, &mut |rows| compared = rows).unwrap();
    assert_eq!((found.equal, found.rows(), compared), (29, 40, 40));
    assert_eq!((found.different.count, found.different.first), (1, vec![7]));
    assert_eq!((found.missing.count, found.missing.first), (10, vec![10, 11, 12]));
}

#[test]
fn rows_of_some_keys_are_found_in_files() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path(), &[5, -1, 9, 5], 1);
    let folder = SparseFolder::open(folder.path(), None).unwrap();
    let found = folder.find(&[9, 4, 5, 9]).unwrap();
    let row = |key| Some(row(key, 1));
    assert_eq!(found, [row(9), None, row(5), row(9)]);
}
