//! The lines that `terrace rank retrieve` reads and writes.

use serde::{Deserialize, Serialize};
use terrace_engine::rank::{RetrieveOutput, RetrieveRequest};

use super::history_line::HistoryLine;
use super::request_file::{RequestLine, UnknownFields};

/// One request.
#[derive(Debug, Deserialize)]
pub struct RetrieveLine {
    #[serde(flatten)]
    history: HistoryLine,
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
    /// Fields that are not known.
    #[serde(flatten)]
    unknown: UnknownFields,
}

fn ten() -> usize {
    10
}

impl RequestLine for RetrieveLine {
    fn unknown(&self) -> &UnknownFields {
        &self.unknown
    }
}

impl RetrieveLine {
    pub fn into_request(self) -> RetrieveRequest {
        RetrieveRequest {
            history: self.history.into_request(Vec::new()),
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
