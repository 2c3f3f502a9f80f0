//! What a client asks to be ranked, and what it gets.

use terrace_cache::users::UserKey;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankRequest {
    pub user: UserKey,
    /// One id for each contextual feature of the model. May be empty where the request begins
    /// behind the context.
    pub context: Vec<i64>,
    /// The history, oldest first: all of it, or what follows `start`.
    pub items: Vec<i64>,
    /// What was done with each item, where the model looks at actions. One more than items where
    /// `start` is between an item and its action.
    pub actions: Vec<i64>,
    pub candidates: Vec<i64>,
    /// The position of the first token that is given; it must be where the cache ends. Without it
    /// the whole history is given, and what is cached of it is found.
    pub start: Option<usize>,
    /// Higher ones run first.
    pub priority: i32,
    /// Refuses ids that a table has not got, instead of giving them its default row.
    pub strict: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankOutput {
    /// For each candidate its logits.
    pub logits: Vec<Vec<f32>>,
    /// Tokens of the history in all, of these cached, and of these computed.
    pub history_tokens: usize,
    pub cached_tokens: usize,
    /// Ids that no table had.
    pub unknown_ids: usize,
    /// Whether what was cached of the user was of another history.
    pub was_edited: bool,
}
