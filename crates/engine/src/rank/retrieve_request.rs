//! What a client asks to be found, and what it gets.

use super::rank_output::RankOutput;
use super::rank_request::RankRequest;

/// Asks for the items that best follow a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetrieveRequest {
    /// Without candidates.
    pub history: RankRequest,
    /// How many items at the most.
    pub count: usize,
    /// Items that are not to be found.
    pub blocked: Vec<i64>,
    /// Items of the history may be found too.
    pub keeps_seen: bool,
    /// When each item of the history was met, for models that look at that; in seconds.
    pub times: Vec<i64>,
    /// When the items to be found will be met. Left out: with the last of the history.
    pub time: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RetrieveOutput {
    /// The best first.
    pub items: Vec<RetrievedItem>,
    pub output: RankOutput,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetrievedItem {
    pub item: i64,
    pub score: f32,
}
