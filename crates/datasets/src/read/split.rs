//! Which users train a model, and which evaluate it: by their place in the file.

use std::path::Path;

use super::sequence_table::{SequenceColumns, SequenceTable, UserSequence};
use crate::dataset_error::DatasetError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// The first seven tenths, rounded down.
    Train,
    /// The rest.
    Eval,
    All,
}

impl Split {
    const TRAIN_PART: f64 = 0.7;

    /// Which of so many users.
    fn range(self, users: usize) -> std::ops::Range<usize> {
        let train = (users as f64 * Self::TRAIN_PART) as usize;
        match self {
            Split::Train => 0..train,
            Split::Eval => train..users,
            Split::All => 0..users,
        }
    }
}

/// The sequences of a split. Users who have no more items than are candidates of a sample belong to
/// neither.
pub struct SplitSequences {
    table: SequenceTable,
    items_needed: usize,
    range: std::ops::Range<usize>,
    read: usize,
    /// Users of both splits, and those who belong to neither.
    pub users: usize,
    pub too_short: usize,
}

impl SplitSequences {
    /// Reads through the file once, to count.
    pub fn open(
        path: &Path,
        columns: &SequenceColumns,
        max_candidates: usize,
        split: Split,
    ) -> Result<Self, DatasetError> {
        let items_needed = if max_candidates == 0 { 0 } else { max_candidates + 1 };
        let mut counted = SequenceTable::open(path, columns)?;
        let (mut users, mut too_short) = (0, 0);
        while counted.next_record()? {
            let is_long = items_needed <= counted.items();
            users += usize::from(is_long);
            too_short += usize::from(!is_long);
        }
        Ok(SplitSequences {
            table: SequenceTable::open(path, columns)?,
            items_needed,
            range: split.range(users),
            read: 0,
            users,
            too_short,
        })
    }

    /// How many users the split has.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The next user of the split.
    pub fn next_sequence(&mut self) -> Result<Option<UserSequence>, DatasetError> {
        while self.read < self.range.end && self.table.next_record()? {
            if self.table.items() < self.items_needed {
                continue;
            }
            self.read += 1;
            if self.range.start < self.read {
                return self.table.current().map(Some);
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(text: &str, max_candidates: usize, split: Split) -> Vec<i64> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let columns = SequenceColumns {
            context: vec![],
            item: "item".to_owned(),
            action: None,
            time: None,
            by_date: false,
        };
        let split = SplitSequences::open(file.path(), &columns, max_candidates, split);
        let mut split = split.unwrap();
        let mut users = Vec::new();
        while let Some(sequence) = split.next_sequence().unwrap() {
            users.push(sequence.user);
        }
        assert_eq!(users.len(), split.len());
        users
    }

    #[test]
    fn seven_tenths_of_the_users_with_enough_items() {
        let mut text = "user_id,item\n".to_owned();
        for user in 0..14 {
            let items = if user % 4 == 1 { "[1]" } else { "\"[1, 2]\"" };
            text += &format!("{user},{items}\n");
        }
        // Ten of them have two items.
        assert_eq!(users(&text, 1, Split::Train), [0, 2, 3, 4, 6, 7, 8]);
        assert_eq!(users(&text, 1, Split::Eval), [10, 11, 12]);
        assert_eq!(users(&text, 1, Split::All).len(), 10);
        assert_eq!(users(&text, 0, Split::Eval), [9, 10, 11, 12, 13]);
        assert_eq!(users(&text, 2, Split::Eval), []);
        assert_eq!(users("user_id,item\n", 0, Split::Train), []);
    }
}
