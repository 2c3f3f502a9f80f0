//! Why a request is not ranked.

use terrace_cache::users::SpanError;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RankError {
    #[error("the model takes {wanted} contextual features, the request has {found}")]
    Context { found: usize, wanted: usize },
    #[error("{actions} actions for {items} items; each item has one")]
    Actions { items: usize, actions: usize },
    #[error("this model looks at items alone; the request has {actions} actions")]
    NoActions { actions: usize },
    #[error("{found} candidates; the model takes up to {most}")]
    TooManyCandidates { found: usize, most: usize },
    #[error("there are no candidates to rank")]
    NoCandidates,
    #[error("this model retrieves items and scores none: ask it by /v1/retrieve")]
    Retrieves,
    #[error("this model scores candidates and retrieves none: ask it by /v1/rank")]
    Ranks,
    #[error("{found} items are asked for; the model gives 1 to {most}")]
    ItemCount { found: usize, most: usize },
    #[error("the history has no item; what follows is found from the last one")]
    NoItems,
    #[error("{found} items are left out, seen and blocked together; at most {most} can be")]
    TooManyExcluded { found: usize, most: usize },
    #[error("{found} times for {items} items; this model looks at the time of each")]
    Times { items: usize, found: usize },
    #[error("this model does not look at times; the request has {found}")]
    NoTimes { found: usize },
    #[error(
        "this model looks at times, and an item's is known with the one after it: send whole \
         histories with their times to /v1/retrieve"
    )]
    NeedsTimes,
    #[error("feature {feature:?} has the id {id}; ids are not negative")]
    NegativeId { feature: String, id: i64 },
    #[error("table {table:?} has no id {id}, and the request is strict")]
    UnknownId { table: String, id: i64 },
    #[error("table {table:?}: {why}")]
    WrongId { table: String, why: String },
    #[error(
        "a level of table {table:?} that may have {ids} of the ids does not answer; try again later"
    )]
    Unanswered { table: String, ids: usize },
    #[error(transparent)]
    Span(#[from] SpanError),
    #[error(
        "the history has {found} tokens; the model takes up to {most}: shorten it, or let \
         truncation do it by sending it whole"
    )]
    TooLong { found: usize, most: usize },
    #[error("{waiting} requests are waiting already; try again later")]
    Busy { waiting: usize },
    #[error("the history and candidates need {wanted} pages, the cache has {pages}")]
    TooLarge { wanted: usize, pages: usize },
    #[error("not begun within {timeout_ms} ms; the engine is too busy, or the time too short")]
    Late { timeout_ms: u64 },
    #[error("the step failed: {0}")]
    Failed(String),
    /// Made for a checkpoint that is served no longer; it is made again.
    #[error("the model was replaced meanwhile; try again")]
    Outdated,
    /// Less is cached than when its rows were fetched; it is made again, with all rows.
    #[error("what is cached of the user has changed meanwhile; try again")]
    RowsMissing,
    #[error("the engine has stopped")]
    Stopped,
}
