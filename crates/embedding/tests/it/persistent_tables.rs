//! Tables of persistent databases: what is in them, who may write, and what is refused.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use terrace_embedding::{KeyKind, RowDatabase, RowStore, TableRecord};
use terrace_rocksdb::{Durability, RocksDb, RocksOptions};

use crate::persistent_stores::{
    KINDS, Kind, check_refused, library, open, open_to_read, scanned, spec, tag, try_open,
    versioned_rows, versions,
};

const DIM: usize = 8;

fn store_of(database: &dyn RowDatabase, table: &str) -> std::sync::Arc<dyn RowStore> {
    database.table(&spec(table, KeyKind::I64, DIM)).expect("a table")
}

fn put(store: &dyn RowStore, keys: &[i64], version: u32) {
    store.put_many(keys, &versioned_rows(keys, version, DIM)).expect("a disk");
}

#[test]
fn two_tables_of_a_database_have_rows_of_their_own() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..2 {
            let database = open(kind, folder.path());
            assert_eq!(database.name(), kind.name());
            let [one, other] = ["one", "other"].map(|table| store_of(&*database, table));
            if round == 0 {
                put(&*one, &[1, 2], 1);
                put(&*other, &[2, 3], 2);
            }
            assert_eq!(versions(&*one, &[1, 2, 3], DIM), [Some(1), Some(1), None]);
            assert_eq!(versions(&*other, &[1, 2, 3], DIM), [None, Some(2), Some(2)]);
            assert_eq!(database.tags(), Ok(vec![tag("one"), tag("other")]), "{kind:?}");
        }
    }
}

#[test]
fn a_removed_table_is_gone_with_its_record_and_may_be_another_one_later() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let database = open(kind, folder.path());
        let [gone, stays] = ["gone", "stays"].map(|table| store_of(&*database, table));
        put(&*gone, &[1], 1);
        put(&*stays, &[1], 1);
        database.remove_table(&tag("gone")).unwrap();
        database.remove_table(&tag("never")).unwrap();
        assert_eq!(database.tags(), Ok(vec![tag("stays")]));
        assert_eq!(database.record(&tag("gone")), Ok(None));
        check_refused(gone.put_many(&[1], &[0.0; DIM]), "unavailable", &["removed", &tag("gone")]);
        let (mut row, mut found) = ([0.0; DIM], [false]);
        check_refused(gone.get_many(&[1], &mut row, &mut found), "unavailable", &["removed"]);

        let other = database.table(&spec("gone", KeyKind::U32, 3)).unwrap();
        assert_eq!(scanned(&*other).len(), 0);
        other.put_many(&[5], &[1.0, 2.0, 3.0]).unwrap();
        check_refused(gone.load_many(&[1], &[0.0; DIM]), "unavailable", &["removed"]);
        drop((gone, stays, other, database));
        let database = open(kind, folder.path());
        let other = database.table(&spec("gone", KeyKind::U32, 3)).unwrap();
        assert_eq!(scanned(&*other), [(5, vec![1.0, 2.0, 3.0])].into());
        assert_eq!(versions(&*store_of(&*database, "stays"), &[1], DIM), [Some(1)]);
    }
}

#[test]
fn records_survive_and_belong_to_tables() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec("t", KeyKind::I64, DIM);
        let record = TableRecord {
            version: Some("sparse_9000".to_owned()),
            loaded_rows: 1 << 33,
            is_loaded: true,
            version_time_ms: 1_700_000_000_000,
            ..TableRecord::new(&spec)
        };
        let database = open(kind, folder.path());
        assert_eq!(database.record(&tag("t")), Ok(None));
        let no_table = database.write_record(&tag("t"), &record);
        check_refused(no_table, "protocol", &["there is none", &tag("t")]);
        database.table(&spec).unwrap();
        assert_eq!(database.record(&tag("t")), Ok(Some(TableRecord::new(&spec))));
        database.write_record(&tag("t"), &record).unwrap();
        assert_eq!(database.record(&tag("t")), Ok(Some(record.clone())));
        drop(database);
        let database = open(kind, folder.path());
        assert_eq!(database.record(&tag("t")), Ok(Some(record)));
        assert_eq!(database.tags(), Ok(vec![tag("t")]));
    }
}

#[test]
fn a_table_of_another_shape_is_refused_with_the_numbers() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let database = open(kind, folder.path());
        store_of(&*database, "t");
        let check = |database: &dyn RowDatabase| {
            let shown = folder.path().display().to_string();
            let words = ["rows of 8 numbers under i64 keys", "16 under i64", shown.as_str()];
            check_refused(database.table(&spec("t", KeyKind::I64, 16)), "protocol", &words);
            let narrow = database.table(&spec("t", KeyKind::U32, DIM));
            check_refused(narrow, "protocol", &["8 under u32 are asked for"]);
            check_refused(database.table(&spec("u", KeyKind::I64, 0)), "protocol", &["0 numbers"]);
        };
        check(&*database);
        drop(database);
        check(&*open(kind, folder.path()));
        check(&*open_to_read(kind, folder.path()));
    }
}

#[test]
fn a_record_of_a_newer_format_is_refused() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec("t", KeyKind::I64, DIM);
        let database = open(kind, folder.path());
        database.table(&spec).unwrap();
        for (format, reason) in [(2, "it has format 2, and this program knows 1"), (0, "no format")]
        {
            let record = TableRecord { format, ..TableRecord::new(&spec) };
            database.write_record(&tag("t"), &record).unwrap();
            check_refused(database.record(&tag("t")), "protocol", &[reason, &tag("t")]);
        }
        drop(database);
        check_refused(open(kind, folder.path()).table(&spec), "protocol", &["no format"]);
    }
}

#[test]
fn keys_that_do_not_fit_are_refused_and_nothing_is_written() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let database = open(kind, folder.path());
        let store = database.table(&spec("t", KeyKind::U32, 1)).unwrap();
        let (keys, words) = ([1, -1], ["key -1 does not fit into a u32"]);
        check_refused(store.put_many(&keys, &[1.0; 2]), "protocol", &words);
        check_refused(store.load_many(&keys, &[1.0; 2]), "protocol", &words);
        check_refused(store.add_many(&keys, &[1.0; 2]), "protocol", &words);
        check_refused(store.remove_many(&keys), "protocol", &words);
        check_refused(store.get_many(&keys, &mut [0.0; 2], &mut [false; 2]), "protocol", &words);
        assert_eq!(scanned(&*store).len(), 0);
    }
}

#[test]
fn large_batches_come_and_go() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let database = open(kind, folder.path());
        let store = store_of(&*database, "t");
        let keys: Vec<i64> = (0..60_000).map(|key| (key * 7_919) % 60_000 - 30_000).collect();
        let rows = |version| versioned_rows(&keys, version, DIM);
        store.load_many(&keys, &rows(1)).unwrap();
        store.load_many(&keys[..30_000], &rows(2)[..30_000 * DIM]).unwrap();
        let later = &keys[20_000..40_000];
        store.put_many(later, &versioned_rows(later, 3, DIM)).unwrap();
        store.remove_many(&keys[50_000..]).unwrap();
        store
            .add_many(&keys[45_000..55_000], &versioned_rows(&keys[45_000..55_000], 4, DIM))
            .unwrap();
        let want = (0..60_000).map(|index| match index {
            0..20_000 => Some(2),
            20_000..40_000 => Some(3),
            40_000..50_000 => Some(1),
            50_000..55_000 => Some(4),
            _ => None,
        });
        assert_eq!(versions(&*store, &keys, DIM), want.collect::<Vec<_>>(), "{kind:?}");
        assert_eq!(scanned(&*store).len(), 55_000);
    }
}

#[test]
fn writes_to_a_database_to_read_are_refused() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let missing = try_open(kind, &folder.path().join("none"), true);
        assert!(missing.is_err() && !folder.path().join("none").exists(), "nothing is made");
        let database = open(kind, folder.path());
        put(&*store_of(&*database, "t"), &[1], 1);
        drop(database);

        let database = open_to_read(kind, folder.path());
        let store = store_of(&*database, "t");
        let words = ["read only", "set read_only to false"];
        check_refused(store.put_many(&[1], &[0.0; DIM]), "read_only", &words);
        check_refused(store.add_many(&[2], &[0.0; DIM]), "read_only", &words);
        check_refused(store.load_many(&[2], &[0.0; DIM]), "read_only", &words);
        check_refused(store.remove_many(&[1]), "read_only", &words);
        check_refused(database.remove_table(&tag("t")), "read_only", &words);
        let record = TableRecord::new(&spec("t", KeyKind::I64, DIM));
        check_refused(database.write_record(&tag("t"), &record), "read_only", &words);
        let new = database.table(&spec("new", KeyKind::I64, DIM));
        check_refused(new, "read_only", &["there is none"]);
        store.sync().unwrap();
        assert_eq!(versions(&*store, &[1, 2], DIM), [Some(1), None]);
    }
}

/// Adders never take the place of what putters wrote, whoever comes first.
#[test]
fn what_is_added_never_takes_the_place_of_a_row() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let database = open(kind, folder.path());
        let store = store_of(&*database, "t");
        let same = store_of(&*database, "t");
        for round in 0..30 {
            let keys: Vec<i64> = (round * 100..(round + 1) * 100).collect();
            thread::scope(|scope| {
                scope.spawn(|| store.add_many(&keys, &versioned_rows(&keys, 1, DIM)).unwrap());
                scope.spawn(|| same.add_many(&keys, &versioned_rows(&keys, 1, DIM)).unwrap());
                scope.spawn(|| put(&*same, &keys, 2));
            });
            assert_eq!(versions(&*store, &keys, DIM), vec![Some(2); 100], "{kind:?} {round}");
        }
    }
}

#[test]
fn a_scan_gives_each_key_once_and_whole_while_others_write() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let database = open(kind, folder.path());
        let store = store_of(&*database, "t");
        let keys: Vec<i64> = (0..5_000).map(|key| key * 3).collect();
        put(&*store, &keys, 0);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let (store, keys, is_over) = (&store, &keys, &is_over);
            scope.spawn(move || {
                for version in 1.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    put(&**store, keys, version % 1000);
                    let new: Vec<i64> = keys.iter().map(|key| key + 1).collect();
                    put(&**store, &new, version % 1000);
                    store.remove_many(&new).unwrap();
                }
            });
            for _ in 0..5 {
                let rows = scanned(&**store);
                assert!(keys.iter().all(|key| rows.contains_key(key)), "{kind:?}");
                for (key, row) in rows {
                    assert_eq!(row, versioned_rows(&[key], row[0] as u32, DIM));
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}

/// The library alone, as HugeCTR uses it: a family by the table's tag, no records.
fn hugectr_table(folder: &std::path::Path, rows: &[(&[u8], &[u8])]) {
    let options = RocksOptions { num_threads: 2, ..RocksOptions::default() };
    let db = RocksDb::open(&library(), folder, &options).expect("a disk");
    let family = db.create_family(&tag("t")).expect("a disk");
    db.create_family("of somebody else").expect("a disk");
    let mut batch = db.write_batch();
    for (key, value) in rows {
        batch.put(&family, key, value).expect("a disk");
    }
    batch.write(Durability::SyncedWal).expect("a disk");
}

fn value(row: [f32; 2]) -> Vec<u8> {
    row.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[test]
fn a_folder_that_hugectr_wrote_opens() {
    let folder = tempfile::tempdir().unwrap();
    let rows = [(5i64, [1.0, 2.0]), (-1, [3.0, 4.0]), (1 << 40, [5.0, 6.0])];
    let entries = rows.map(|(key, row)| (key.to_le_bytes(), value(row)));
    hugectr_table(folder.path(), &entries.each_ref().map(|(key, row)| (&key[..], &row[..])));
    let database = open_to_read(Kind::Rocks, folder.path());
    assert_eq!(database.tags(), Ok(vec![tag("t")]));
    let known = database.record(&tag("t")).unwrap().unwrap();
    assert_eq!(known, TableRecord::new(&spec("t", KeyKind::I64, 2)));
    let words = ["rows of 2 numbers under i64 keys, and 3 under u32"];
    check_refused(database.table(&spec("t", KeyKind::U32, 3)), "protocol", &words);
    drop(database);

    let database = open(Kind::Rocks, folder.path());
    let store = database.table(&spec("t", KeyKind::I64, 2)).unwrap();
    let want = rows.map(|(key, row)| (key, row.to_vec()));
    assert_eq!(scanned(&*store), want.into());
    let (mut found_rows, mut found) = ([0.0; 4], [false; 2]);
    store.get_many(&[-1, 7], &mut found_rows, &mut found).unwrap();
    assert_eq!((found_rows, found), ([3.0, 4.0, 0.0, 0.0], [true, false]));
    store.put_many(&[7], &[7.0, 8.0]).unwrap();
    drop((store, database));

    // And what was put is as HugeCTR reads it.
    let options = RocksOptions { read_only: true, ..RocksOptions::default() };
    let db = RocksDb::open(&library(), folder.path(), &options).unwrap();
    let mut found = Vec::new();
    let family = db.family(&tag("t")).unwrap();
    family.multi_get(&7i64.to_le_bytes(), 8, &mut |_, it| found = it.to_vec()).unwrap();
    assert_eq!(found, value([7.0, 8.0]));
}

#[test]
fn a_table_of_hugectr_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    hugectr_table(folder.path(), &[(&[1; 5], &[0; 8])]);
    let database = open(Kind::Rocks, folder.path());
    let words = ["its first key has 5 bytes and its value 8"];
    check_refused(database.table(&spec("t", KeyKind::I64, 2)), "protocol", &words);
    check_refused(database.record(&tag("t")), "protocol", &words);
}

/// One row is too short: it is named, and all others are found.
#[test]
fn a_value_of_another_length_is_an_error_with_its_key_and_never_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let keys: Vec<i64> = (0..5_000).collect();
    let right = value([1.0, 2.0]);
    let bytes: Vec<[u8; 8]> = keys.iter().map(|key| key.to_le_bytes()).collect();
    let row = |key: i64| if key == 4_321 { &right[..7] } else { &right[..] };
    let entries: Vec<_> = keys.iter().map(|key| (&bytes[*key as usize][..], row(*key))).collect();
    hugectr_table(folder.path(), &entries);
    let database = open(Kind::Rocks, folder.path());
    let store = database.table(&spec("t", KeyKind::I64, 2)).unwrap();
    let (mut rows, mut found) = (vec![9.0; 10_000], vec![false; 5_000]);
    let words = ["the row of key 4321 has 7 bytes, not 8", &tag("t")];
    check_refused(store.get_many(&keys, &mut rows, &mut found), "protocol", &words);
    for (key, row) in keys.iter().zip(rows.chunks_exact(2)) {
        let want = if *key == 4_321 { [9.0; 2] } else { [1.0, 2.0] };
        assert_eq!((row, found[*key as usize]), (&want[..], *key != 4_321));
    }
    check_refused(store.scan(100, &mut |_, _| Ok(())), "protocol", &words);
    store.put_many(&[4_321], &[3.0, 4.0]).unwrap();
    store.get_many(&keys, &mut rows, &mut found).unwrap();
    assert_eq!(rows[8_642..8_644], [3.0, 4.0]);
}
