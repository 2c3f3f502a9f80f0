//! Which layers are a row of the lattice.

use std::ops::Range;

/// Runs of `per_cell` layers from the first on; a last run of one joins the one before.
pub fn layer_rows(layers: usize, per_cell: usize) -> Vec<Range<usize>> {
    assert!(per_cell > 0, "a row has layers");
    let starts = (0..layers).step_by(per_cell);
    let mut rows: Vec<_> = starts.map(|start| start..layers.min(start + per_cell)).collect();
    if per_cell > 1 && rows.len() > 1 && rows.last().is_some_and(|row| row.len() == 1) {
        rows.pop();
        rows.last_mut().expect("more than one row").end = layers;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(layers: usize, per_cell: usize, ends: &[usize]) {
        let rows = layer_rows(layers, per_cell);
        assert!(rows.iter().map(|row| row.end).eq(ends.iter().copied()), "{rows:?}");
        let starts = rows.iter().map(|row| row.start);
        assert!(starts.eq([0].iter().chain(ends).copied().take(ends.len())), "{rows:?}");
    }

    #[test]
    fn a_last_layer_alone_joins_the_row_before() {
        check(2, 1, &[1, 2]);
        check(5, 2, &[2, 5]);
        check(4, 2, &[2, 4]);
        check(3, 2, &[3]);
        check(1, 2, &[1]);
        check(7, 3, &[3, 7]);
        check(8, 3, &[3, 6, 8]);
    }
}
