//! What the tests do with databases.

use std::path::Path;
use std::sync::Arc;

use terrace_rocksdb::{
    Durability, Family, FamilyIterator, KeyValue, RocksDb, RocksLibrary, RocksOptions,
};

pub type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// In the folders of `LD_LIBRARY_PATH` or the system's, so that any version can be tested.
pub fn library() -> Arc<RocksLibrary> {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    RocksLibrary::load(&folders)
        .unwrap_or_else(|error| panic!("{error}; or run tools/setup.sh tests"))
}

pub fn open(folder: &Path) -> RocksDb {
    RocksDb::open(&library(), folder, &options()).expect("a database")
}

pub fn open_to_read(folder: &Path) -> RocksDb {
    let options = RocksOptions { read_only: true, ..options() };
    RocksDb::open(&library(), folder, &options).expect("a database")
}

/// With fewer threads than a server would have.
pub fn options() -> RocksOptions {
    RocksOptions { num_threads: 2, ..RocksOptions::default() }
}

pub fn put(db: &RocksDb, family: &str, rows: &[(&str, &str)]) {
    let family = db.create_family(family).expect("a family");
    let mut batch = db.write_batch();
    for (key, value) in rows {
        batch.put(&family, key.as_bytes(), value.as_bytes()).expect("it fits");
    }
    batch.write(Durability::Wal).expect("a disk");
}

/// Keys of one length.
pub fn get(family: &Family<'_>, keys: &[&str]) -> Vec<Option<String>> {
    let mut values = vec![None; keys.len()];
    let key_bytes = keys.first().map_or(1, |key| key.len());
    let found = &mut |index: usize, value: &[u8]| {
        let value = String::from_utf8(value.to_owned()).expect("text");
        assert!(values[index].replace(value).is_none(), "{index} is found twice");
    };
    family.multi_get(keys.concat().as_bytes(), key_bytes, found).expect("a disk");
    values
}

pub fn rest(mut rows: FamilyIterator<'_>) -> Rows {
    let mut all = Rows::new();
    while let Some(KeyValue { key, value }) = rows.next_row().expect("a disk") {
        all.push((key.to_owned(), value.to_owned()));
    }
    assert_eq!(rows.next_row(), Ok(None), "it stays at its end");
    all
}

pub fn some(values: &[&str]) -> Vec<Option<String>> {
    values.iter().map(|value| Some((*value).to_owned())).collect()
}
