//! The rows that levels are filled with: all numbers of a row follow from its key.

use std::time::Instant;

use anyhow::{Result, ensure};
use terrace_embedding::{KeyKind, RowStore, TableSpec, TagStyle};

/// Whole numbers up to this are exact.
const NUMBERS: i64 = 1 << 24;
/// Rows that are put in at once.
const LOADED_ROWS: usize = 1 << 18;

pub fn table_spec(dim: usize) -> TableSpec {
    let tag = TagStyle::Hps.table_tag("terrace_bench", "rows");
    TableSpec { tag, key_kind: KeyKind::I64, dim, default_value: 0.0 }
}

/// Puts rows of the keys `0..rows` in; gives how many a second.
pub fn load_rows(store: &dyn RowStore, rows: usize, dim: usize) -> Result<f64> {
    let began = Instant::now();
    each_load(rows, dim, |keys, rows| Ok(store.load_many(keys, rows)?))?;
    store.sync()?;
    Ok(rows as f64 / began.elapsed().as_secs_f64())
}

/// Calls `each` with all keys and rows, in ascending order, as many as are put in at once.
pub fn each_load(
    rows: usize,
    dim: usize,
    mut each: impl FnMut(&[i64], &[f32]) -> Result<()>,
) -> Result<()> {
    for start in (0..rows).step_by(LOADED_ROWS) {
        let end = rows.min(start + LOADED_ROWS);
        let keys: Vec<i64> = (start as i64..end as i64).collect();
        each(&keys, &rows_of(&keys, dim))?;
    }
    Ok(())
}

/// `[keys, dim]`
pub fn rows_of(keys: &[i64], dim: usize) -> Vec<f32> {
    keys.iter().flat_map(|key| std::iter::repeat_n(number(*key), dim)).collect()
}

/// Refuses rows that are not those of the keys · rows: `[keys, dim]`
pub fn check_rows(keys: &[i64], rows: &[f32]) -> Result<()> {
    let dim = rows.len() / keys.len();
    for (key, row) in keys.iter().zip(rows.chunks_exact(dim)) {
        let is_right = row.iter().all(|it| *it == number(*key));
        ensure!(is_right, "the row of key {key} begins with {}, not {}", row[0], number(*key));
    }
    Ok(())
}

fn number(key: i64) -> f32 {
    (key % NUMBERS) as f32
}
