//! Tables from their files, with a database that is interrupted on request.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use terrace_embedding::{
    KeyKind, LoadError, LoadOutcome, LoadProgress, RowDatabase, RowStore, SparseBatch,
    SparseFolder, StoredFile, TableRecord, TableSpec, TagStyle, load_table,
};
use terrace_tiers::TierError;

use crate::lookups::MoodyStore;

const DIM: usize = 2;

/// Keeps what was recorded; after so many records it fails, as if the process had ended.
struct MemoryDatabase {
    table: Mutex<Arc<MoodyStore>>,
    records: Mutex<BTreeMap<String, TableRecord>>,
    records_left: AtomicUsize,
}

impl MemoryDatabase {
    fn new() -> Self {
        MemoryDatabase {
            table: Mutex::new(MoodyStore::new(u64::MAX)),
            records: Mutex::default(),
            records_left: AtomicUsize::new(usize::MAX),
        }
    }

    fn table(&self) -> Arc<MoodyStore> {
        Arc::clone(&self.table.lock().expect("no panic"))
    }
}

impl RowDatabase for MemoryDatabase {
    fn name(&self) -> &str {
        "memory"
    }

    fn table(&self, _: &TableSpec) -> Result<Arc<dyn RowStore>, TierError> {
        Ok(self.table())
    }

    fn tags(&self) -> Result<Vec<String>, TierError> {
        Ok(self.records.lock().expect("no panic").keys().cloned().collect())
    }

    fn remove_table(&self, tag: &str) -> Result<(), TierError> {
        *self.table.lock().expect("no panic") = MoodyStore::new(u64::MAX);
        self.records.lock().expect("no panic").remove(tag);
        Ok(())
    }

    fn record(&self, tag: &str) -> Result<Option<TableRecord>, TierError> {
        Ok(self.records.lock().expect("no panic").get(tag).cloned())
    }

    fn write_record(&self, tag: &str, record: &TableRecord) -> Result<(), TierError> {
        if self.records_left.load(Ordering::Relaxed) == 0 {
            return Err(TierError::Io("memory: ended on request".into()));
        }
        self.records_left.fetch_sub(1, Ordering::Relaxed);
        self.records.lock().expect("no panic").insert(tag.to_owned(), record.clone());
        Ok(())
    }
}

fn spec(dim: usize, key_kind: KeyKind) -> TableSpec {
    let tag = TagStyle::Hps.table_tag("m", "t");
    TableSpec { tag, key_kind, dim, default_value: 0.0 }
}

fn write_folder(folder: &Path, keys: &[i64], row: impl Fn(i64) -> Vec<f32>) {
    fs::create_dir_all(folder).expect("a folder");
    let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    fs::write(folder.join("key"), bytes).expect("a file");
    let numbers = keys.iter().flat_map(|key| row(*key));
    let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
    fs::write(folder.join("emb_vector"), bytes).expect("a file");
}

fn small(key: i64) -> Vec<f32> {
    vec![key as f32, 0.5]
}

fn version_of(table: &MoodyStore, key: i64) -> Option<[f32; DIM]> {
    let (mut row, mut found) = ([0.0; DIM], [false]);
    table.get_many(&[key], &mut row, &mut found).expect("memory");
    found[0].then_some(row)
}

#[test]
fn every_row_is_loaded_once_and_updates_stay() {
    let folder = TempDir::new().unwrap();
    let keys: Vec<i64> = (0..1_000).map(|key| key * 3 - 500).collect();
    write_folder(folder.path(), &keys, small);
    let (database, spec) = (MemoryDatabase::new(), spec(DIM, KeyKind::I64));
    let load = |database: &MemoryDatabase| {
        let folders = [SparseFolder::open(folder.path(), Some(DIM)).unwrap()];
        load_table(&spec, &folders, database, &mut |_| ()).unwrap()
    };
    assert_eq!(load(&database), LoadOutcome::Loaded { rows: 1_000 });
    assert!(keys.iter().all(|key| version_of(&database.table(), *key) == Some([*key as f32, 0.5])));
    database.table().put_many(&[1], &[1.0, 9.0]).unwrap();
    assert_eq!(load(&database), LoadOutcome::WasThere);
    // The same content, copied again.
    write_folder(folder.path(), &keys, small);
    let file = fs::File::options().write(true).open(folder.path().join("key")).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(load(&database), LoadOutcome::WasThere);
    assert_eq!(version_of(&database.table(), 1), Some([1.0, 9.0]), "the update is still there");
    // Another version, with fewer keys: the others are gone.
    write_folder(folder.path(), &keys[..10], |key| vec![key as f32, 2.0]);
    assert_eq!(load(&database), LoadOutcome::Loaded { rows: 10 });
    assert_eq!(version_of(&database.table(), 1), None);
    assert_eq!(version_of(&database.table(), keys[0]), Some([keys[0] as f32, 2.0]));
}

#[test]
fn an_interrupted_load_goes_on_where_it_was() {
    const WIDE: usize = 1 << 16;
    let folder = TempDir::new().unwrap();
    let bytes: Vec<u8> = (0..640).flat_map(|key: i64| key.to_le_bytes()).collect();
    fs::write(folder.path().join("key"), bytes).unwrap();
    // Zeros that take no room on the disk: 256 KiB a row, so that there are several batches.
    let rows = fs::File::create(folder.path().join("emb_vector")).unwrap();
    rows.set_len(640 * 4 * WIDE as u64).unwrap();
    let database = CountingDatabase::default();
    let spec = spec(WIDE, KeyKind::I64);
    let load = || {
        let folders = [SparseFolder::open(folder.path(), None).unwrap()];
        let mut seen = Vec::new();
        let outcome = load_table(&spec, &folders, &database, &mut |progress| seen.push(progress));
        (outcome, seen)
    };
    database.records.records_left.store(2, Ordering::Relaxed);
    assert!(load().0.is_err());
    database.records.records_left.store(usize::MAX, Ordering::Relaxed);
    let (outcome, seen) = load();
    assert_eq!(outcome.unwrap(), LoadOutcome::Loaded { rows: 384 });
    let want = [512, 640].map(|rows| LoadProgress::Loaded { rows, of: 640 });
    assert_eq!(seen, want);
    // The batch that was written and not recorded came twice, the others once.
    let loaded = database.loaded.lock().unwrap().clone();
    assert_eq!(loaded, [0..256, 256..512, 256..512, 512..640]);
}

/// Remembers which keys were loaded, not their rows.
#[derive(Default)]
struct CountingDatabase {
    records: RecordsOnly,
    loaded: Arc<Mutex<Vec<std::ops::Range<i64>>>>,
}

struct RecordsOnly(MemoryDatabase);

impl Default for RecordsOnly {
    fn default() -> Self {
        RecordsOnly(MemoryDatabase::new())
    }
}

impl std::ops::Deref for RecordsOnly {
    type Target = MemoryDatabase;

    fn deref(&self) -> &MemoryDatabase {
        &self.0
    }
}

struct CountingStore(Arc<Mutex<Vec<std::ops::Range<i64>>>>);

impl RowDatabase for CountingDatabase {
    fn name(&self) -> &str {
        "counting"
    }

    fn table(&self, _: &TableSpec) -> Result<Arc<dyn RowStore>, TierError> {
        Ok(Arc::new(CountingStore(Arc::clone(&self.loaded))))
    }

    fn tags(&self) -> Result<Vec<String>, TierError> {
        self.records.tags()
    }

    fn remove_table(&self, tag: &str) -> Result<(), TierError> {
        self.records.remove_table(tag)
    }

    fn record(&self, tag: &str) -> Result<Option<TableRecord>, TierError> {
        self.records.record(tag)
    }

    fn write_record(&self, tag: &str, record: &TableRecord) -> Result<(), TierError> {
        self.records.write_record(tag, record)
    }
}

impl RowStore for CountingStore {
    fn name(&self) -> &str {
        "counting"
    }

    fn get_many(&self, _: &[i64], _: &mut [f32], _: &mut [bool]) -> Result<(), TierError> {
        Ok(())
    }

    fn put_many(&self, keys: &[i64], _: &[f32]) -> Result<(), TierError> {
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return Ok(()) };
        self.0.lock().expect("no panic").push(*first..last + 1);
        Ok(())
    }

    fn add_many(&self, keys: &[i64], rows: &[f32]) -> Result<(), TierError> {
        self.put_many(keys, rows)
    }

    fn remove_many(&self, _: &[i64]) -> Result<(), TierError> {
        Ok(())
    }

    fn count(&self) -> Result<u64, TierError> {
        Ok(0)
    }

    fn scan(&self, _: usize, _: &mut terrace_embedding::ScannedRows<'_>) -> Result<(), TierError> {
        Ok(())
    }
}

#[test]
fn files_that_do_not_add_up_are_refused() {
    #[track_caller]
    fn check(files: &[(&str, usize)], dim: Option<usize>, want: &str) {
        let folder = TempDir::new().unwrap();
        for (file, bytes) in files {
            fs::write(folder.path().join(file), vec![0; *bytes]).unwrap();
        }
        let error = SparseFolder::open(folder.path(), dim).err().expect("an error").to_string();
        let error = error.replace(&folder.path().display().to_string(), "F");
        assert_eq!(error, want);
    }
    let missing = "No such file or directory (os error 2); a table's folder has the files key and \
                   emb_vector";
    check(&[], None, &format!("F/key: {missing}"));
    check(&[("key", 8)], None, &format!("F/emb_vector: {missing}"));
    check(
        &[("key", 0), ("emb_vector", 0)],
        None,
        "F: there are no keys in it; name the folder of \
           a trained table",
    );
    check(
        &[("key", 12), ("emb_vector", 16)],
        None,
        "F: key has 12 bytes, which are no whole \
           number of keys of 8 bytes; copy the file again",
    );
    check(
        &[("key", 16), ("emb_vector", 20)],
        None,
        "F: emb_vector has 20 bytes for 2 keys, which \
           is no whole number of numbers for each; copy the files of one checkpoint",
    );
    check(
        &[("key", 16), ("emb_vector", 0)],
        None,
        "F: emb_vector has 0 bytes for 2 keys, which is \
           no whole number of numbers for each; copy the files of one checkpoint",
    );
    check(
        &[("key", 16), ("emb_vector", 32)],
        Some(5),
        "F: emb_vector has 32 bytes for 2 keys, and \
           rows of 5 numbers have 20 each; copy the files of one checkpoint",
    );
    check(
        &[("key", 16), ("emb_vector", 32), ("slot_id", 8)],
        None,
        "F: slot_id has 8 bytes, and \
           16 belong to 2 keys",
    );
}

/// Claims a size that no disk has.
struct ClaimedFile(u64);

impl StoredFile for ClaimedFile {
    fn path(&self) -> &str {
        "claimed"
    }

    fn bytes(&self) -> u64 {
        self.0
    }

    fn modified_ms(&self) -> u64 {
        0
    }

    fn read_at(&self, offset: u64, _: &mut [u8]) -> io::Result<()> {
        Err(io::Error::other(format!("nothing at {offset}")))
    }
}

fn claimed(key_bytes: u64, row_bytes: u64, dim: Option<usize>) -> Result<SparseFolder, LoadError> {
    let (keys, rows) = (Box::new(ClaimedFile(key_bytes)), Box::new(ClaimedFile(row_bytes)));
    SparseFolder::new("F".to_owned(), keys, rows, dim)
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    #[track_caller]
    fn check(key_bytes: u64, row_bytes: u64, dim: Option<usize>, want: &str) {
        let error = claimed(key_bytes, row_bytes, dim).err().expect("an error").to_string();
        assert_eq!(error, want);
    }
    let most = u64::MAX - 7;
    check(
        8,
        4 * 65_537,
        None,
        "F: 262148 bytes of emb_vector for 1 keys are rows of 65537 numbers, and a row has at \
         most 65536; copy the files of one checkpoint",
    );
    check(
        8,
        most,
        None,
        "F: 18446744073709551608 bytes of emb_vector for 1 keys are rows of 4611686018427387902 \
         numbers, and a row has at most 65536; copy the files of one checkpoint",
    );
    check(
        8,
        4,
        Some(usize::MAX),
        "F: emb_vector has 4 bytes for 1 keys, and rows of 18446744073709551615 numbers have \
         73786976294838206460 each; copy the files of one checkpoint",
    );
}

#[test]
fn a_file_that_claims_too_much_fails_where_it_is_read() {
    let most = u64::MAX - 7;
    let folder = claimed(most, most, None).unwrap();
    let (count, mut batch) = (most / 8, SparseBatch::default());
    assert_eq!((folder.count(), folder.dim()), (count, 2));
    let error = folder.read(count - 1, 7, KeyKind::I64, &mut batch).unwrap_err().to_string();
    assert_eq!(error, format!("claimed: cannot read 8 bytes at {}: nothing at {0}", most - 8));
    for start in [count, count + 1, u64::MAX] {
        folder.read(start, 7, KeyKind::I64, &mut batch).unwrap();
        assert_eq!(batch, SparseBatch::default(), "{start}");
    }
    let (database, spec) = (MemoryDatabase::new(), spec(2, KeyKind::I64));
    let whole =
        TableRecord { version: Some("1".to_owned()), is_loaded: true, ..TableRecord::new(&spec) };
    for record in [None, Some(whole)] {
        if let Some(record) = record {
            database.write_record(spec.tag.as_str(), &record).unwrap();
        }
        let folders: Vec<_> = (0..9).map(|_| claimed(most, most, None).unwrap()).collect();
        let error = load_table(&spec, &folders, &database, &mut |_| ()).unwrap_err();
        assert!(matches!(error, LoadError::File { .. }), "{error}");
    }
}

#[test]
fn keys_that_do_not_fit_are_named() {
    let folder = TempDir::new().unwrap();
    write_folder(folder.path(), &[1, -2], small);
    let folders = [SparseFolder::open(folder.path(), None).unwrap()];
    let spec = spec(DIM, KeyKind::U32);
    let loaded = load_table(&spec, &folders, &MemoryDatabase::new(), &mut |_| ());
    let Err(error @ LoadError::Key { .. }) = loaded else { panic!("{loaded:?}") };
    assert!(error.to_string().contains("key -2 does not fit into a u32"), "{error}");
}
