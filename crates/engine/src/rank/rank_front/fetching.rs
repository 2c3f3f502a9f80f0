//! Rows of a job's tokens, where a parameter server has them.

use std::collections::BTreeMap;

use terrace_embedding::{Error as TableError, TableId};
use terrace_model::hstu::HistoryToken;

use super::RankFront;
use crate::rank::job_rows::{FetchedRows, JobRows, UnfetchedTokens};
use crate::rank::rank_error::RankError;
use crate::rank::rank_job::RankJob;
use crate::rank::rank_tables::RankTables;
use crate::rank::served_features::{ServedFeatures, TablesEnded};

/// Ids of one table, and whose rows they are.
#[derive(Default)]
struct Asked {
    ids: Vec<i64>,
    places: Vec<Place>,
}

#[derive(Clone, Copy)]
enum Place {
    Item(usize),
    Context(usize),
}

impl RankFront {
    /// Brings a job the rows that it has not got, but for `cached` tokens at its beginning. It may
    /// wait for the parameter server.
    pub(in crate::rank) fn fetch_rows(
        &self,
        job: &mut RankJob,
        cached: usize,
    ) -> Result<(), RankError> {
        let (RankTables::Served(features), JobRows::Unfetched { candidates, is_strict }) =
            (&self.tables, &job.rows)
        else {
            return Ok(());
        };
        let first = cached.min(job.ids.len());
        // Until it runs it has only what follows its start.
        let start = job.start.unwrap_or(0) + first;
        let ids = &job.ids[first..];
        let of_context = self.layout.context.saturating_sub(start).min(ids.len());
        let (history, count) = (ids.len(), candidates.len());
        let tokens = UnfetchedTokens { first, history, candidates: count, of_context };
        let mut rows = FetchedRows::zeros(tokens, features.dims());
        let mut unknown_ids = 0;
        for (table, Asked { ids, places }) in self.asked(start, ids, candidates) {
            let (found, unknown) = fetch(features, table, &ids, *is_strict)?;
            unknown_ids += unknown;
            for (place, row) in places.iter().zip(found.chunks_exact(found.len() / ids.len())) {
                match place {
                    Place::Item(token) => rows.item_mut(*token).copy_from_slice(row),
                    Place::Context(token) => rows.context_mut(*token).copy_from_slice(row),
                }
            }
        }
        job.unknown_ids = unknown_ids;
        job.rows = JobRows::Fetched(rows);
        Ok(())
    }

    /// What is asked of each table, for ids that begin at a position and candidates behind them.
    fn asked(&self, start: usize, ids: &[i64], candidates: &[i64]) -> BTreeMap<TableId, Asked> {
        let mut asked = BTreeMap::<TableId, Asked>::new();
        let mut ask = |table: TableId, id: i64, place: Place| {
            let Asked { ids, places } = asked.entry(table).or_default();
            ids.push(id);
            places.push(place);
        };
        for (token, id) in ids.iter().enumerate() {
            match self.layout.token(start + token) {
                HistoryToken::Context(feature) => {
                    ask(self.context_tables[feature], *id, Place::Context(token));
                }
                HistoryToken::Item(_) => ask(self.item_table, *id, Place::Item(token)),
                HistoryToken::Action(_) => {
                    let table = self.action_table.expect("the model has actions");
                    ask(table, *id, Place::Item(token));
                }
            }
        }
        for (candidate, id) in candidates.iter().enumerate() {
            ask(self.item_table, *id, Place::Item(ids.len() + candidate));
        }
        asked
    }
}

/// The rows of ids of a table, and how many different ones it has not got.
fn fetch(
    features: &ServedFeatures,
    table: TableId,
    ids: &[i64],
    is_strict: bool,
) -> Result<(Vec<f32>, usize), RankError> {
    let name = || features.name(table).to_owned();
    let look_up = |ids: &[i64]| {
        let looked_up = features.look_up(table, ids).map_err(|TablesEnded| RankError::Stopped)?;
        looked_up.map_err(|error| match error {
            TableError::Key(error) => RankError::WrongId { table: name(), why: error.to_string() },
            error => RankError::Failed(error.to_string()),
        })
    };
    let (rows, stats) = look_up(ids)?;
    if 0 < stats.unanswered {
        return Err(RankError::Unanswered { table: name(), ids: stats.unanswered });
    }
    if 0 < stats.defaults && is_strict {
        for id in ids {
            if 0 < look_up(std::slice::from_ref(id))?.1.defaults {
                return Err(RankError::UnknownId { table: name(), id: *id });
            }
        }
    }
    Ok((rows, stats.defaults))
}
