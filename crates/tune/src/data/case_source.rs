//! Where examples come from.

use super::case::Case;
use super::data_error::DataError;

/// Examples by their numbers, which are the same from run to run. One's own data implement it.
pub trait CaseSource: Send + Sync {
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same for the same number.
    fn case(&self, number: usize) -> Result<Case, DataError>;

    /// The names of classes, by number; empty where sequences have none.
    fn classes(&self) -> &[String] {
        &[]
    }

    /// What the tokens of all cases depend on, for lengths that are kept; `None`: not kept.
    fn fingerprint(&self) -> Option<String> {
        None
    }
}
