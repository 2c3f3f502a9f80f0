//! A level of your own for embedding rows, without forking Terrace.
//!
//!     cargo run --example custom_row_store -- path/to/table.csv 1 2 3
//!
//! The store is `csv_store.rs`; this serves a table from it, through a hot cache and behind a
//! breaker, the way `terrace serve --ps` does, and prints the rows of keys.

mod csv_store;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use terrace_device::Device;
use terrace_embedding::{
    CacheHolds, FillThreads, KeyKind, Level, LevelConfig, LevelKind, MissingRows, ReadThreads,
    ServedTable, ServedTableConfig, TableCacheConfig, TableLevels, TableSpec, TagStyle,
};
use terrace_kernels::HotCacheShape;
use terrace_tiers::BreakerConfig;

use csv_store::CsvStore;

const DIM: usize = 4;
const CACHED_ROWS: usize = 1_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("give it a file and keys")?;
    let keys = arguments.map(|key| key.parse()).collect::<Result<Vec<i64>, _>>()?;
    let table = Arc::new(serve(path.as_ref())?);
    let mut rows = vec![0.0; keys.len() * DIM];
    table.look_up(&keys, MissingRows::AsConfigured, &mut rows)?;
    for (key, row) in keys.iter().zip(rows.chunks_exact(DIM)) {
        println!("{key}: {row:?}");
    }
    Ok(())
}

fn serve(path: &Path) -> Result<ServedTable, Box<dyn Error>> {
    let tag = TagStyle::Hps.table_tag("example", "rows");
    let spec = TableSpec { tag, key_kind: KeyKind::I64, dim: DIM, default_value: 0.0 };
    let level = LevelConfig {
        kind: LevelKind::Persistent,
        promotes: false,
        takes_updates: true,
        suspends_itself: false,
        timed_reads: Some((Arc::new(ReadThreads::start(1)?), Duration::from_secs(1))),
        breaker: BreakerConfig::default(),
    };
    let level = Level::new(Arc::new(CsvStore::open(path, DIM)?), "rows", level);
    let cache = TableCacheConfig {
        shape: HotCacheShape::evicting(CACHED_ROWS, DIM).ok_or("too large a cache")?,
        holds: CacheHolds::Recent,
        hit_rate_threshold: 1.1,
    };
    Ok(ServedTable::new(ServedTableConfig {
        levels: TableLevels::new(spec, vec![level]),
        caches: vec![(Device::Cpu, cache)],
        fills: Arc::new(FillThreads::start(1)?),
    })?)
}

#[cfg(test)]
mod tests {
    use terrace_embedding::{RowStore, UpdateScope};

    use super::*;

    #[test]
    fn rows_of_the_file_are_served_and_updates_are_written_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        std::fs::write(&path, "7,1,2,3,4\n-1, 0.5,0,0,0\n").unwrap();
        let table = Arc::new(serve(&path).unwrap());
        let row = |key: i64| {
            let mut row = vec![9.0; DIM];
            table.look_up(&[key], MissingRows::AsConfigured, &mut row).unwrap();
            row
        };
        assert_eq!(
            [row(7), row(-1), row(8)],
            [[1.0, 2.0, 3.0, 4.0], [0.5, 0.0, 0.0, 0.0], [0.0; 4]]
        );
        table.update(UpdateScope::Own, &[8], &[8.0; DIM]).unwrap();
        assert_eq!(row(8), [8.0; DIM]);
        let again = CsvStore::open(&path, DIM).unwrap();
        assert_eq!(again.count().unwrap(), 3);
        again.remove_many(&[7]).unwrap();
        again.add_many(&[8, 9], &[1.0; 2 * DIM]).unwrap();
        let mut found = Vec::new();
        let mut each = |keys: &[i64], rows: &[f32]| {
            found.extend(keys.iter().map(|key| (*key, rows.len())));
            Ok(())
        };
        again.scan(2, &mut each).unwrap();
        assert_eq!(found, [(-1, 2 * DIM), (8, 2 * DIM), (9, DIM)]);
    }

    #[test]
    fn a_line_that_is_no_row_is_refused_with_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        for text in ["1,2,3", "x,1,2,3,4", "1,1,2,3,4\n2,1,2,3,y"] {
            std::fs::write(&path, text).unwrap();
            let error = CsvStore::open(&path, DIM).err().unwrap().to_string();
            let line = format!("line {}", text.lines().count());
            assert!(error.contains(&line), "{text}: {error}");
        }
    }
}
