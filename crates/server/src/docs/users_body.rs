//! What the routes of recommenders take.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A history, whole or from `start` on, and what is to be ranked after it.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"user": "anna", "context": [3, 1], "items": [10, 11],
    "actions": [1, 4], "candidates": [12, 13]}))]
pub struct RankBody {
    /// Which recommender. May be left out while one is served.
    model: Option<String>,
    /// Whose history it is: 1 to 512 bytes.
    user: String,
    /// An id for each contextual feature of the model.
    context: Option<Vec<i64>>,
    /// The items of the history, the oldest first.
    items: Option<Vec<i64>>,
    /// What was done with each item, where the model looks at that.
    actions: Option<Vec<i64>>,
    /// The items to be ranked.
    candidates: Vec<i64>,
    /// The position of the first token that is given, which must be where the cache ends. Left
    /// out, the whole history is given, and what is cached of it is found.
    start: Option<usize>,
    /// Larger goes first when not all fit; 0 is ordinary.
    priority: Option<i32>,
    /// Refuse ids that a table has not got, instead of giving them its default row.
    strict: Option<bool>,
    /// Refuse the request if it has not begun to be computed after so many milliseconds.
    timeout_ms: Option<usize>,
}

/// A history, whole or from `start` on.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"user": "anna", "context": [3, 1], "items": [10], "actions": [1]}))]
pub struct UserHistoryBody {
    /// Which recommender. May be left out while one is served.
    model: Option<String>,
    /// Whose history it is: 1 to 512 bytes.
    user: String,
    /// An id for each contextual feature of the model.
    context: Option<Vec<i64>>,
    /// The items of the history, the oldest first.
    items: Option<Vec<i64>>,
    /// What was done with each item, where the model looks at that.
    actions: Option<Vec<i64>>,
    /// The position of the first token that is given, which must be where the cache ends.
    start: Option<usize>,
    /// Larger goes first when not all fit; 0 is ordinary.
    priority: Option<i32>,
    /// Refuse ids that a table has not got, instead of giving them its default row.
    strict: Option<bool>,
    /// Refuse the request if it has not begun to be computed after so many milliseconds.
    timeout_ms: Option<usize>,
}

/// What follows the history that is cached.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"items": [12], "actions": [2]}))]
pub struct EventsBody {
    /// Which recommender. May be left out while one is served.
    model: Option<String>,
    /// An id for each contextual feature of the model: of a user who is new here. Others may
    /// leave it out; where it differs from what is cached, all is computed again.
    context: Option<Vec<i64>>,
    /// The new items, the oldest first.
    items: Option<Vec<i64>>,
    /// What was done with each, where the model looks at that.
    actions: Option<Vec<i64>>,
    /// The position of the first token that is given, which must be where the cache ends. Left
    /// out, they follow what is cached.
    start: Option<usize>,
    /// Larger goes first when not all fit; 0 is ordinary.
    priority: Option<i32>,
    /// Refuse ids that a table has not got, instead of giving them its default row.
    strict: Option<bool>,
    /// Give up if they have not begun to be computed after so many milliseconds.
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
