//! The lines that `terrace rank retrieve` reads and writes.

use serde::{Deserialize, Serialize};
use terrace_engine::rank::{RankRequest, RetrieveOutput, RetrieveRequest, UserKey};

/// One request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetrieveLine {
    user: String,
    #[serde(default)]
    tenant: String,
    #[serde(default)]
    context: Vec<i64>,
    items: Vec<i64>,
    #[serde(default)]
    actions: Vec<i64>,
    #[serde(default = "ten")]
    count: usize,
    #[serde(default)]
    blocked: Vec<i64>,
    #[serde(default)]
    include_seen: bool,
    #[serde(default)]
    times: Vec<i64>,
    #[serde(default)]
    time: Option<i64>,
    #[serde(default)]
    start: Option<usize>,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    strict: bool,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

fn ten() -> usize {
    10
}

impl RetrieveLine {
    pub fn into_request(self) -> RetrieveRequest {
        RetrieveRequest {
            history: RankRequest {
                user: UserKey::new(&self.tenant, &self.user),
                context: self.context,
                items: self.items,
                actions: self.actions,
                candidates: Vec::new(),
                start: self.start,
                priority: self.priority,
                strict: self.strict,
                timeout_ms: self.timeout_ms,
            },
            count: self.count,
            blocked: self.blocked,
            keeps_seen: self.include_seen,
            times: self.times,
            time: self.time,
        }
    }
}

/// What came of it.
#[derive(Debug, Serialize)]
pub struct RetrievedLine {
    pub user: String,
    pub items: Vec<FoundItem>,
    pub history_tokens: usize,
    pub cached_tokens: usize,
    pub unknown_ids: usize,
}

#[derive(Debug, Serialize)]
pub struct FoundItem {
    pub item: i64,
    pub score: f32,
}

impl RetrievedLine {
    pub fn new(user: String, found: RetrieveOutput) -> Self {
        let items = found.items.iter().map(|it| FoundItem { item: it.item, score: it.score });
        RetrievedLine {
            user,
            items: items.collect(),
            history_tokens: found.output.history_tokens,
            cached_tokens: found.output.cached_tokens,
            unknown_ids: found.output.unknown_ids,
        }
    }
}
