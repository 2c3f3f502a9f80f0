//! Requests to retrieve.
//!
//! The query is what the model makes of the last item, after all before it. That row is not in the
//! cache, where keys and values are, so it is computed in every request: as a candidate after a
//! history that ends before it, which sees the same. So nothing that is cached is written again,
//! and where layers look at the time of what follows an item, that of the last is the request's.

use terrace_cache::users::timed_event;
use terrace_embedding::TableSet;

use super::{LookedUp, RankFront};
use crate::rank::job_rows::JobRows;
use crate::rank::rank_error::RankError;
use crate::rank::rank_job::{JobTimes, Progress, RankJob, WantedItems};
use crate::rank::rank_output::RankOutput;
use crate::rank::rank_tables::RankTables;
use crate::rank::retrieve_request::{RetrieveOutput, RetrieveRequest, RetrievedItem};
use crate::rank::scored_row::ScoredRow;

/// Items that a request may leave out, seen and blocked together.
pub(in crate::rank) const MOST_EXCLUDED: usize = 1 << 17;

impl RankFront {
    /// The job of a request with its whole history.
    pub fn retrieval_job(&self, request: &RetrieveRequest) -> Result<RankJob, RankError> {
        let RetrieveRequest { history, blocked, times, .. } = request;
        let (count, keeps_seen, time) = (request.count, request.keeps_seen, request.time);
        let most = self.max_candidates;
        if !(1..=most).contains(&count) {
            return Err(RankError::ItemCount { found: count, most });
        }
        let tables = self.own_tables();
        self.check(history)?;
        self.check_ids(self.item_table, blocked)?;
        if times.len() != if self.has_times { history.items.len() } else { 0 } {
            let (items, found) = (history.items.len(), times.len());
            return Err(match self.has_times {
                true => RankError::Times { items, found },
                false => RankError::NoTimes { found },
            });
        }
        let mut ids = self.whole_history(history)?;
        let kept = self.kept_items(history.items.len());
        let Some(last_item) = kept.len().checked_sub(1) else {
            return Err(RankError::NoItems);
        };
        let mut looked_up = LookedUp { is_strict: history.strict, unknown_ids: 0 };
        let mut rows = self.rows(tables, 0, &ids, &mut looked_up)?;
        let last = self.layout.history_tokens(last_item);
        let query_row = rows[last];
        ids.truncate(last);
        rows.truncate(last);
        let times = self.has_times.then(|| {
            let keys = times[kept].to_vec();
            let after = time.unwrap_or(keys[last_item]);
            JobTimes { keys, after }
        });
        if let Some(times) = &times {
            let events = ids.iter_mut().zip(times.keys.windows(2));
            events.for_each(|(id, when)| *id = timed_event(*id, when[0], when[1]));
        }
        let seen: &[i64] = if keeps_seen { &[] } else { &history.items };
        let excluded = self.excluded(seen.iter().chain(blocked))?;
        let root = self.seed.root(&history.user);
        Ok(RankJob {
            generation: self.generation,
            user: history.user.clone(),
            priority: history.priority,
            ids,
            rows: JobRows::Numbers { history: rows, candidates: vec![query_row] },
            root,
            keys: None,
            wanted: Some(WantedItems { count, excluded }),
            times,
            start: None,
            unknown_ids: looked_up.unknown_ids,
            timeout_ms: history.timeout_ms,
            progress: Progress { is_new: true, ..Progress::default() },
        })
    }

    /// What was found, by the items' ids.
    pub fn retrieved(&self, output: RankOutput) -> RetrieveOutput {
        let item = |found: &ScoredRow| {
            let item = self.own_tables().key(self.item_table, found.row as usize);
            RetrievedItem { item: item.expect("a row of the table"), score: found.score }
        };
        RetrieveOutput { items: output.found.iter().map(item).collect(), output }
    }

    /// Rows of the item table, counted from its first, each once.
    fn excluded<'a>(&self, ids: impl Iterator<Item = &'a i64>) -> Result<Vec<i32>, RankError> {
        let tables = self.own_tables();
        let (index, first) = (tables.index(self.item_table), self.item_rows().start as i32);
        let known = ids.map(|id| index.look_up(*id)).filter(|found| found.is_known);
        // Nobody is recommended what fills up short histories.
        let padding = self.has_times.then(|| index.look_up(0)).filter(|found| found.is_known);
        let mut rows: Vec<i32> = known.chain(padding).map(|found| found.row - first).collect();
        rows.sort_unstable();
        rows.dedup();
        match rows.len() {
            0..=MOST_EXCLUDED => Ok(rows),
            found => Err(RankError::TooManyExcluded { found, most: MOST_EXCLUDED }),
        }
    }

    fn item_rows(&self) -> std::ops::Range<usize> {
        self.own_tables().rows_of(self.item_table)
    }

    /// A search compares with every item, so they are in memory.
    fn own_tables(&self) -> &TableSet {
        match &self.tables {
            RankTables::Own(tables) => tables,
            RankTables::Served(_) => panic!("a model that retrieves has its tables in memory"),
        }
    }
}
