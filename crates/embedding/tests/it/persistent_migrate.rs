//! Tables that are copied from one persistent database into the other.

use std::sync::Arc;

use terrace_embedding::{KeyKind, RowDatabase, RowStore, TableRecord, TableSpec, migrate};
use terrace_tiers::TierError;

use crate::persistent_stores::{
    KINDS, check_refused, open, open_to_read, scanned, spec, tag, versioned_rows,
};

const ROWS: i64 = 20_000;

fn specs() -> [TableSpec; 3] {
    [spec("wide", KeyKind::I64, 32), spec("narrow", KeyKind::U32, 3), spec("none", KeyKind::I64, 8)]
}

fn loaded(spec: &TableSpec) -> TableRecord {
    let version = Some("v1".to_owned());
    TableRecord { version, loaded_rows: 9, is_loaded: true, ..TableRecord::new(spec) }
}

/// One table with a version, one that only updates have written, one without rows.
fn fill(database: &dyn RowDatabase) {
    for spec in specs() {
        let store = database.table(&spec).expect("a table");
        let keys: Vec<i64> = (0..ROWS).map(|key| key * 5).collect();
        match spec.dim {
            32 => store.load_many(&keys, &versioned_rows(&keys, 1, 32)).expect("a disk"),
            3 => store.put_many(&keys[..100], &versioned_rows(&keys[..100], 2, 3)).expect("a disk"),
            _ => {}
        }
        if spec.dim == 32 {
            database.write_record(spec.tag.as_str(), &loaded(&spec)).expect("a record");
        }
    }
}

fn check_same(from: &dyn RowDatabase, to: &dyn RowDatabase) {
    assert_eq!(from.tags(), to.tags());
    for spec in specs() {
        let [source, copied] = [from, to].map(|database| database.table(&spec).expect("a table"));
        assert!(scanned(&*source) == scanned(&*copied), "{}", spec.tag);
        assert!(to.record(spec.tag.as_str()).expect("a record").expect("a record").is_loaded);
    }
    assert_eq!(to.record(&tag("wide")).expect("a record"), Some(loaded(&specs()[0])));
    let updated = to.record(&tag("narrow")).expect("a record").expect("a record");
    assert_eq!((updated.version, updated.loaded_rows), (None, 100));
}

#[test]
fn tables_are_copied_either_way_and_once() {
    for kind in KINDS {
        let [source, target] = [(), ()].map(|()| tempfile::tempdir().unwrap());
        fill(&*open(kind, source.path()));
        let from = open_to_read(kind, source.path());
        let to = open(kind.other(), target.path());
        let mut last = Vec::new();
        migrate(&*from, &*to, &mut |tag, rows| last.push((tag.to_owned(), rows))).unwrap();
        for (name, rows) in [("wide", ROWS as u64), ("narrow", 100), ("none", 0)] {
            let reported = last.iter().rfind(|(reported, _)| *reported == tag(name));
            assert_eq!(reported.unwrap().1, rows, "{name}");
        }
        check_same(&*from, &*to);
        drop(to);

        let to = open(kind.other(), target.path());
        migrate(&*from, &*to, &mut |tag, _| panic!("{tag} is copied twice")).unwrap();
        check_same(&*from, &*to);
    }
}

/// Gives the rows of another database, and fails after some batches or rows.
struct Interrupted {
    inner: Arc<dyn RowDatabase>,
    after_rows: usize,
}

struct InterruptedRows {
    inner: Arc<dyn RowStore>,
    after_rows: usize,
}

impl RowDatabase for Interrupted {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn table(&self, spec: &TableSpec) -> Result<Arc<dyn RowStore>, TierError> {
        let inner = self.inner.table(spec)?;
        Ok(Arc::new(InterruptedRows { inner, after_rows: self.after_rows }))
    }
    fn tags(&self) -> Result<Vec<String>, TierError> {
        self.inner.tags()
    }
    fn remove_table(&self, tag: &str) -> Result<(), TierError> {
        self.inner.remove_table(tag)
    }
    fn record(&self, tag: &str) -> Result<Option<TableRecord>, TierError> {
        self.inner.record(tag)
    }
    fn write_record(&self, tag: &str, record: &TableRecord) -> Result<(), TierError> {
        self.inner.write_record(tag, record)
    }
}

impl RowStore for InterruptedRows {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn get_many(
        &self,
        keys: &[i64],
        rows: &mut [f32],
        found: &mut [bool],
    ) -> Result<(), TierError> {
        self.inner.get_many(keys, rows, found)
    }
    fn put_many(&self, keys: &[i64], rows: &[f32]) -> Result<(), TierError> {
        self.inner.put_many(keys, rows)
    }
    fn add_many(&self, keys: &[i64], rows: &[f32]) -> Result<(), TierError> {
        self.inner.add_many(keys, rows)
    }
    fn remove_many(&self, keys: &[i64]) -> Result<(), TierError> {
        self.inner.remove_many(keys)
    }
    fn count(&self) -> Result<u64, TierError> {
        self.inner.count()
    }
    fn scan(
        &self,
        _batch_rows: usize,
        each: &mut terrace_embedding::ScannedRows<'_>,
    ) -> Result<(), TierError> {
        let mut given = 0;
        self.inner.scan(1000, &mut |keys, rows| {
            each(keys, rows)?;
            given += keys.len();
            match given < self.after_rows {
                true => Ok(()),
                false => Err(TierError::Io("the power is cut".to_owned())),
            }
        })
    }
}

#[test]
fn a_copy_that_was_interrupted_is_made_again() {
    for kind in KINDS {
        let [source, target] = [(), ()].map(|()| tempfile::tempdir().unwrap());
        let from = open(kind, source.path());
        fill(&*from);
        for after_rows in [1, 100, 5_000] {
            let to = open(kind.other(), target.path());
            let cut = Interrupted { inner: Arc::clone(&from), after_rows };
            let stopped = migrate(&cut, &*to, &mut |_, _| {});
            check_refused(stopped, "io", &["the power is cut"]);
            assert!(!to.record(&tag("wide")).unwrap().is_some_and(|record| record.is_loaded));
        }
        // What is under way and gone from the source since does not stay.
        from.table(&specs()[0]).unwrap().remove_many(&[0, 5]).unwrap();
        let to = open(kind.other(), target.path());
        migrate(&*from, &*to, &mut |_, _| {}).unwrap();
        check_same(&*from, &*to);
    }
}

#[test]
fn rows_that_are_not_from_the_source_are_never_taken_away() {
    for kind in KINDS {
        let [source, target] = [(), ()].map(|()| tempfile::tempdir().unwrap());
        let (from, to) = (open(kind, source.path()), open(kind.other(), target.path()));
        fill(&*from);
        let store = to.table(&specs()[0]).unwrap();
        store.put_many(&[1], &[1.0; 32]).unwrap();
        let refused = migrate(&*from, &*to, &mut |_, _| {});
        check_refused(refused, "protocol", &[&tag("wide"), "remove it there", to.name()]);
        assert_eq!(scanned(&*store), [(1, vec![1.0; 32])].into());
        store.remove_many(&[1]).unwrap();
        migrate(&*from, &*to, &mut |_, _| {}).unwrap();
        check_same(&*from, &*to);
    }
}
