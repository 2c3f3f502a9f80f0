//! What the routes of recommenders take.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A history, whole or from `start` on, and what is to be ranked after it.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"user": "anna", "context": [3, 1], "items": [10, 11],
    "actions": [1, 4], "candidates": [12, 13]}))]
pub struct RankBody {
    /// Whose history it is: 1 to 512 bytes.
    user: String,
    /// The items to be ranked.
    candidates: Vec<i64>,
    #[serde(flatten)]
    history: HistoryFields,
}

/// A history, whole or from `start` on, and what is to be found after it.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"user": "anna", "context": [3, 1], "items": [10, 11],
    "actions": [1, 4], "count": 5, "blocked": [12]}))]
pub struct RetrieveBody {
    /// Whose history it is: 1 to 512 bytes.
    user: String,
    /// How many items at the most; 10 unless given.
    count: Option<usize>,
    /// Items that are not to be found.
    blocked: Option<Vec<i64>>,
    /// Whether items of the history may be found; the default is false.
    include_seen: Option<bool>,
    /// When each item was met, in seconds, for models that look at that (variant `sequential`).
    times: Option<Vec<i64>>,
    /// When the items to be found will be met; with the last of the history unless given.
    time: Option<i64>,
    #[serde(flatten)]
    history: HistoryFields,
}

/// A history, whole or from `start` on.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"user": "anna", "context": [3, 1], "items": [10], "actions": [1]}))]
pub struct UserHistoryBody {
    /// Whose history it is: 1 to 512 bytes.
    user: String,
    #[serde(flatten)]
    history: HistoryFields,
}

/// What follows the history that is cached. Of a user who is new here the context's features come
/// with it; where they differ from what is cached, all is computed again.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"context": [3, 1], "items": [12], "actions": [2]}))]
pub struct EventsBody {
    #[serde(flatten)]
    history: HistoryFields,
}

/// A history, or a part of one.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct HistoryFields {
    /// Which recommender. May be left out while one is served.
    model: Option<String>,
    /// An id for each contextual feature of the model.
    context: Option<Vec<i64>>,
    /// The items, the oldest first.
    items: Option<Vec<i64>>,
    /// What was done with each item, where the model looks at that.
    actions: Option<Vec<i64>>,
    /// The position of the first token that is given, which must be where the cache ends. Left
    /// out, what is cached of the history is found, and events follow it.
    start: Option<usize>,
    /// Larger goes first when not all fit; 0 is ordinary.
    priority: Option<i32>,
    /// Refuse ids that a table has not got, instead of giving them its default row.
    strict: Option<bool>,
    /// Refuse the request if it has not begun to be computed after so many milliseconds.
    timeout_ms: Option<usize>,
}

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"users": ["anna", "ben"]}))]
pub struct KvUsersBody {
    /// Which recommender. May be left out while one is served.
    model: Option<String>,
    /// The users.
    users: Vec<String>,
}

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({}))]
pub struct ModelBody {
    /// Which recommender. May be left out while one is served.
    model: Option<String>,
}
