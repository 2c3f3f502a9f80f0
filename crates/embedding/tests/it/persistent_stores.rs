//! What the tests do with persistent databases. RocksDB's library must be installed:
//! `tools/setup.sh tests` does it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use terrace_embedding::{
    BatchSizes, EmbeddedDatabase, EmbeddedDatabaseConfig, KeyKind, RocksDatabase,
    RocksDatabaseConfig, RowDatabase, RowStore, TableSpec, TagStyle,
};
use terrace_rocksdb::RocksLibrary;
use terrace_tiers::TierError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Rocks,
    Embedded,
}

pub const KINDS: [Kind; 2] = [Kind::Rocks, Kind::Embedded];

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Rocks => "rocksdb",
            Kind::Embedded => "embedded",
        }
    }

    pub fn named(name: &str) -> Self {
        *KINDS.iter().find(|kind| kind.name() == name).expect("one of the names")
    }

    pub fn other(self) -> Self {
        match self {
            Kind::Rocks => Kind::Embedded,
            Kind::Embedded => Kind::Rocks,
        }
    }
}

/// In the folders of `LD_LIBRARY_PATH` or the system's, so that any version can be tested.
pub fn library() -> Arc<RocksLibrary> {
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    RocksLibrary::load(&folders)
        .unwrap_or_else(|error| panic!("{error}; or run tools/setup.sh tests"))
}

/// With batches that do not come out even.
pub fn try_open(
    kind: Kind,
    path: &Path,
    read_only: bool,
) -> Result<Arc<dyn RowDatabase>, TierError> {
    let batches = BatchSizes { read_rows: 1000, write_rows: 700 };
    let (path, num_threads, write_buffer_bytes) = (path.to_owned(), 2, 8 << 20);
    Ok(match kind {
        Kind::Rocks => {
            let block_cache_bytes = 1 << 20;
            let config = RocksDatabaseConfig {
                path,
                read_only,
                num_threads,
                block_cache_bytes,
                write_buffer_bytes,
                batches,
            };
            Arc::new(RocksDatabase::open(config, &library())?)
        }
        Kind::Embedded => {
            let cache_bytes = 1 << 20;
            let config = EmbeddedDatabaseConfig {
                path,
                read_only,
                num_threads,
                cache_bytes,
                write_buffer_bytes,
                batches,
            };
            Arc::new(EmbeddedDatabase::open(config)?)
        }
    })
}

pub fn open(kind: Kind, path: &Path) -> Arc<dyn RowDatabase> {
    try_open(kind, path, false).expect("a database")
}

pub fn open_to_read(kind: Kind, path: &Path) -> Arc<dyn RowDatabase> {
    try_open(kind, path, true).expect("a database")
}

#[track_caller]
pub fn check_refused<T>(result: Result<T, TierError>, kind: &str, words: &[&str]) {
    let error = result.err().expect("refused");
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for word in words {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
}

pub fn spec(table: &str, key_kind: KeyKind, dim: usize) -> TableSpec {
    TableSpec { tag: TagStyle::Hps.table_tag("m", table), key_kind, dim, default_value: 0.0 }
}

pub fn tag(table: &str) -> String {
    format!("hps_et.m.{table}")
}

/// The row of a key in a version of it: whoever reads one knows whether it is whole.
pub fn versioned_row(key: i64, version: u32, dim: usize) -> Vec<f32> {
    let column = |column: usize| ((key * 31 + column as i64 * 7) % 1000) as f32 + version as f32;
    std::iter::once(version as f32).chain((1..dim).map(column)).collect()
}

pub fn versioned_rows(keys: &[i64], version: u32, dim: usize) -> Vec<f32> {
    keys.iter().flat_map(|key| versioned_row(*key, version, dim)).collect()
}

/// The versions of the keys that are there; fails if a row is not whole.
pub fn versions(store: &dyn RowStore, keys: &[i64], dim: usize) -> Vec<Option<u32>> {
    let (mut rows, mut found) = (vec![0.0; keys.len() * dim], vec![false; keys.len()]);
    store.get_many(keys, &mut rows, &mut found).expect("a disk");
    let version = |(index, key): (usize, &i64)| {
        let row = &rows[index * dim..][..dim];
        found[index].then(|| {
            let version = row[0] as u32;
            assert_eq!(row, versioned_row(*key, version, dim), "key {key}");
            version
        })
    };
    keys.iter().enumerate().map(version).collect()
}

pub fn scanned(store: &dyn RowStore) -> BTreeMap<i64, Vec<f32>> {
    let mut all = BTreeMap::new();
    let mut each = |keys: &[i64], rows: &[f32]| {
        for (key, row) in keys.iter().zip(rows.chunks_exact(rows.len() / keys.len())) {
            assert!(all.insert(*key, row.to_vec()).is_none(), "key {key} twice");
        }
        Ok(())
    };
    store.scan(1000, &mut each).expect("a disk");
    all
}
