//! What every request of a file has.

use serde::Deserialize;
use terrace_engine::rank::{RankRequest, UserKey};

/// A user's history, and how the request is treated.
#[derive(Debug, Deserialize)]
pub struct HistoryLine {
    user: String,
    #[serde(default)]
    tenant: String,
    #[serde(default)]
    context: Vec<i64>,
    items: Vec<i64>,
    #[serde(default)]
    actions: Vec<i64>,
    #[serde(default)]
    start: Option<usize>,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    strict: bool,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

impl HistoryLine {
    pub fn into_request(self, candidates: Vec<i64>) -> RankRequest {
        RankRequest {
            user: UserKey::new(&self.tenant, &self.user),
            context: self.context,
            items: self.items,
            actions: self.actions,
            candidates,
            start: self.start,
            priority: self.priority,
            strict: self.strict,
            timeout_ms: self.timeout_ms,
        }
    }
}
