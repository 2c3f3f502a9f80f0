//! One score, and the best of some.

pub(crate) fn score(query: &[f32], item: &[f32]) -> f32 {
    query.iter().zip(item).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() as f32
}

/// The best first, each with its row; of equal ones the first row.
pub(crate) fn best(scores: &[f32], excluded: &[i32], most: usize) -> Vec<(i32, f32)> {
    // Of two zeros none is less.
    let rows = (0..).zip(scores.iter().map(|score| score + 0.0));
    let eligible =
        rows.filter(|(row, score)| f32::NEG_INFINITY < *score && !excluded.contains(row));
    let mut rows: Vec<(i32, f32)> = eligible.collect();
    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
    rows.truncate(most);
    rows
}
