//! One interaction of a user with an item.

/// As the logs have it; what a data set does not have is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub user: i64,
    /// In the unit of the data set.
    pub time: i64,
    pub item: i64,
    pub play_ms: i64,
    pub duration_ms: i64,
    /// As `20220408`.
    pub date: u32,
    /// A mask of feedback bits, or the class of a rating.
    pub action: u8,
    /// Which log file it is from.
    pub file: u8,
}

impl Event {
    /// What events are sorted by; of equal keys the first in the logs stays first.
    pub fn key(&self) -> (i64, i64) {
        (self.user, self.time)
    }
}
