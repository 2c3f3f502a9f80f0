//! Rows of `processed_batches.csv` as batches of requests.

use std::collections::HashSet;

use terrace_datasets::read::IntervalBatch;

/// Rows that follow each other, at most so many at once: of one date, and of a user one at a time,
/// so that what is computed for one is there for the next.
pub fn batches(rows: &[IntervalBatch], most: usize) -> impl Iterator<Item = &[IntervalBatch]> {
    let mut rest = rows;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let mut users = HashSet::new();
        let fits = |row: &&IntervalBatch| row.date == first.date && users.insert(row.user);
        let count = rest.iter().take(most).take_while(fits).count();
        let (batch, behind) = rest.split_at(count);
        rest = behind;
        Some(batch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_and_a_date_are_not_mixed() {
        let row = |(user, date): (i64, u32)| IntervalBatch { user, date, end_time: 0, events: 1 };
        let rows = [(1, 8), (2, 8), (1, 8), (3, 8), (4, 8), (5, 8), (5, 9), (6, 9)].map(row);
        let users = |most| -> Vec<Vec<i64>> {
            batches(&rows, most).map(|batch| batch.iter().map(|row| row.user).collect()).collect()
        };
        assert_eq!(users(3), [vec![1, 2], vec![1, 3, 4], vec![5], vec![5, 6]]);
        assert_eq!(users(9), [vec![1, 2], vec![1, 3, 4, 5], vec![5, 6]]);
        assert_eq!(users(1).len(), rows.len());
        assert_eq!(batches(&[], 2).count(), 0);
    }
}
