//! What was written, in numbers: how large a model's tables must be.

/// The least and the largest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnRange {
    pub least: i64,
    pub largest: i64,
}

impl ColumnRange {
    fn add(range: Option<Self>, number: i64) -> Self {
        let range = range.unwrap_or(ColumnRange { least: number, largest: number });
        ColumnRange { least: range.least.min(number), largest: range.largest.max(number) }
    }
}

/// Of the rows for training.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceReport {
    pub users: u64,
    /// Users who are not in every log, or not in the table of users.
    pub users_left_out: u64,
    pub events: u64,
    pub shortest: u64,
    pub longest: u64,
    pub user_ids: Option<ColumnRange>,
    pub item_ids: Option<ColumnRange>,
    pub actions: Option<ColumnRange>,
    /// Of each contextual feature with codes: its name, and its largest code.
    pub codes: Vec<(String, usize)>,
}

/// Of the rows for inference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InferenceReport {
    pub sequences: u64,
    pub batches: u64,
}

impl SequenceReport {
    pub fn add(&mut self, events: &[crate::Event]) {
        let length = events.len() as u64;
        self.shortest = if self.users == 0 { length } else { self.shortest.min(length) };
        self.longest = self.longest.max(length);
        self.users += 1;
        self.events += length;
        self.user_ids = Some(ColumnRange::add(self.user_ids, events[0].user));
        for event in events {
            self.item_ids = Some(ColumnRange::add(self.item_ids, event.item));
            self.actions = Some(ColumnRange::add(self.actions, i64::from(event.action)));
        }
    }
}
