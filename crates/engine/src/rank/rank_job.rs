//! A request on its way: ids as rows and keys, and how far it has come.

use std::collections::BTreeMap;

use terrace_cache::users::{HistoryContent, HistoryKeys, HistoryRoot, UserKey, UserSlot};

use super::job_rows::JobRows;
use super::scored_row::ScoredRow;

/// Names a job inside one engine; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// Jobs by their ids, in the order in which they came.
pub type RankJobs = BTreeMap<JobId, RankJob>;

#[derive(Clone, Debug)]
pub struct RankJob {
    /// Of the front that made it.
    pub generation: u32,
    pub user: UserKey,
    pub priority: i32,
    /// Ids by position, and their embedding rows with those of candidates. Of the whole history;
    /// until the job runs, of one that begins at `start` what follows there.
    pub ids: Vec<i64>,
    pub rows: JobRows,
    /// Where the chain of its keys starts, and the keys, once it has its user.
    pub root: HistoryRoot,
    pub keys: Option<HistoryKeys>,
    /// Of a job that retrieves: its only candidate is the query.
    pub wanted: Option<WantedItems>,
    /// Where the model looks at times.
    pub times: Option<JobTimes>,
    /// Where the request says its history goes on; see `RankRequest::start`.
    pub start: Option<usize>,
    pub unknown_ids: usize,
    /// See `RankRequest::timeout_ms`.
    pub timeout_ms: Option<u64>,
    pub progress: Progress,
}

/// What a query is to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedItems {
    /// At the most.
    pub count: usize,
    /// Rows of the item table, counted from its first, that are left out.
    pub excluded: Vec<i32>,
}

/// When events happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTimes {
    /// That of each position, and of the query behind the history.
    pub keys: Vec<i64>,
    /// What follows the query.
    pub after: i64,
}

impl JobTimes {
    /// When the event after a position's happens.
    pub fn after(&self, position: usize) -> i64 {
        self.keys.get(position + 1).copied().unwrap_or(self.after)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Nobody has tried to run it.
    pub is_new: bool,
    /// When it came, got its user, and began to be computed.
    pub arrived_us: u64,
    pub entered_us: u64,
    pub began_us: u64,
    /// Its user's, once it has that.
    pub slot: Option<UserSlot>,
    /// Work of lower tiers that it waits for, of which the first may be look-ups.
    pub fetches: usize,
    pub looks_up: bool,
    pub fetch_until_us: Option<u64>,
    /// Tokens that came from lower tiers, and from the host in all.
    pub fetched: usize,
    pub promoted: usize,
    pub table: Vec<i32>,
    pub cached: usize,
    pub was_edited: bool,
    /// Tokens of the history that are computed.
    pub history: usize,
    /// Logits of the candidates so far, one after the other, or what was found.
    pub logits: Vec<f32>,
    pub found: Vec<ScoredRow>,
    pub candidates: usize,
}

impl RankJob {
    pub fn content(&self) -> HistoryContent<'_> {
        let keys = self.keys.as_ref().expect("a job with its user has keys");
        HistoryContent { keys, ids: &self.ids }
    }

    /// What is cached of the user comes before what was given. Rows of the former are not needed.
    pub fn prepend(&mut self, cached: &[i64]) {
        self.rows.prepend(cached.len());
        self.ids = cached.iter().chain(&self.ids).copied().collect();
    }

    /// When it must have begun.
    pub fn deadline_us(&self) -> Option<u64> {
        self.timeout_ms.map(|ms| self.progress.arrived_us.saturating_add(ms.saturating_mul(1000)))
    }

    pub fn is_done(&self) -> bool {
        let Progress { history, candidates, .. } = self.progress;
        history == self.ids.len() && candidates == self.rows.candidates()
    }
}

impl Progress {
    /// Whether it waits no longer for lower tiers.
    pub fn has_fetched(&self, now_us: u64) -> bool {
        self.fetches == 0 || self.fetch_until_us.is_none_or(|until| until <= now_us)
    }
}
