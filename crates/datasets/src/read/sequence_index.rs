//! The rows of a table of sequences, by user and date.

use std::collections::HashMap;
use std::path::Path;

use super::sequence_table::{SequenceColumns, SequenceTable, UserSequence};
use crate::dataset_error::DatasetError;

/// Knows where rows stand, and reads those that are asked for.
pub struct SequenceIndex {
    table: SequenceTable,
    /// Of each user, by date.
    rows: HashMap<i64, Vec<DaySequence>>,
}

/// Where the sequence of a day stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaySequence {
    pub date: u32,
    position: csv::Position,
}

impl SequenceIndex {
    /// Reads through the file once.
    pub fn open(path: &Path, columns: &SequenceColumns) -> Result<Self, DatasetError> {
        let mut table = SequenceTable::open(path, columns)?;
        let mut rows: HashMap<i64, Vec<DaySequence>> = HashMap::new();
        while table.next_record()? {
            let (user, date, position) = table.key()?;
            rows.entry(user).or_default().push(DaySequence { date, position });
        }
        for days in rows.values_mut() {
            days.sort_by_key(|day| day.date);
        }
        Ok(SequenceIndex { table, rows })
    }

    /// Of a user, by date; empty where there are none.
    pub fn days(&self, user: i64) -> &[DaySequence] {
        self.rows.get(&user).map_or(&[], Vec::as_slice)
    }

    pub fn read(&mut self, day: &DaySequence) -> Result<UserSequence, DatasetError> {
        self.table.sequence_at(&day.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_in_any_order() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "user_id,date,item\n1,9,\"[5, 6]\"\n2,8,[7]\n1,8,\"[1, 2, 3]\"\n";
        std::fs::write(file.path(), text).unwrap();
        let columns = SequenceColumns {
            context: vec![],
            item: "item".to_owned(),
            action: None,
            time: None,
            by_date: true,
        };
        let mut index = SequenceIndex::open(file.path(), &columns).unwrap();
        let days = index.days(1).to_vec();
        let items: Vec<Vec<i64>> =
            days.iter().rev().map(|day| index.read(day).unwrap().items).collect();
        assert_eq!(items, [vec![5, 6], vec![1, 2, 3]]);
        assert_eq!(days.iter().map(|day| day.date).collect::<Vec<_>>(), [8, 9]);
        assert!(index.days(3).is_empty());
    }
}
