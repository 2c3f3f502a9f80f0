//! What a client asks to be ranked.

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
    /// Without any the history is computed and kept, for requests to come.
    pub candidates: Vec<i64>,
    /// The position of the first token that is given; it must be where the cache ends. Without it
    /// the whole history is given, and what is cached of it is found.
    pub start: Option<usize>,
    /// Higher ones run first.
    pub priority: i32,
    /// Refuses ids that a table has not got, instead of giving them its default row.
    pub strict: bool,
    /// A request that has not begun to be computed by then is refused.
    pub timeout_ms: Option<u64>,
}
