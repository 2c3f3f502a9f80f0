//! What is done with a request before the engine sees it: checks, ids as rows, content keys.

use std::sync::Arc;

use terrace_cache::users::{HistoryKeys, HistorySeed};
use terrace_embedding::{TableId, TableSet};
use terrace_model::hstu::{HistoryToken, TokenLayout, UserFeatures};

use super::rank_error::RankError;
use super::rank_job::{Progress, RankJob};
use super::rank_request::RankRequest;
use super::truncation::Truncate;

/// Shared by all who ask.
pub struct RankFront {
    pub layout: TokenLayout,
    pub tables: Arc<TableSet>,
    /// Tables of the context's features, of items, and of actions.
    pub context_tables: Vec<TableId>,
    pub item_table: TableId,
    pub action_table: Option<TableId>,
    pub max_history_tokens: usize,
    pub max_candidates: usize,
    pub truncate: Truncate,
    pub seed: HistorySeed,
    pub page_tokens: usize,
}

impl RankFront {
    /// The job of a request.
    pub fn job(&self, request: RankRequest) -> Result<RankJob, RankError> {
        self.check(&request)?;
        let start = request.start.unwrap_or(0);
        let ids = match request.start {
            None => self.whole_history(&request)?,
            Some(start) => self.history_from(&request, start)?,
        };
        let mut unknown_ids = 0;
        let mut rows = Vec::with_capacity(ids.len());
        for (position, id) in (start..).zip(&ids) {
            let table = self.table_at(position);
            rows.push(self.row(table, *id, request.strict, &mut unknown_ids)?);
        }
        let row = |id: &i64| self.row(self.item_table, *id, request.strict, &mut unknown_ids);
        let candidate_rows = request.candidates.iter().map(row).collect::<Result<_, _>>()?;
        let keys = HistoryKeys::new(self.seed.root(&request.user), self.page_tokens, &ids);
        Ok(RankJob {
            user: request.user,
            priority: request.priority,
            ids,
            rows,
            keys,
            candidate_rows,
            start: request.start,
            unknown_ids,
            timeout_ms: request.timeout_ms,
            progress: Progress { is_new: true, ..Progress::default() },
        })
    }

    /// The ids of a whole history, as much of it as fits.
    fn whole_history(&self, request: &RankRequest) -> Result<Vec<i64>, RankError> {
        let (found, wanted) = (request.context.len(), self.layout.context);
        if found != wanted {
            return Err(RankError::Context { found, wanted });
        }
        let (items, actions) = (request.items.len(), request.actions.len());
        if self.layout.has_actions && items != actions {
            return Err(RankError::Actions { items, actions });
        }
        let most = (self.max_history_tokens - self.layout.context) / self.layout.item_tokens();
        let kept = self.truncate.kept(items, most);
        let tokens = self.layout.history_tokens(kept.len());
        let user = UserFeatures {
            context: &request.context,
            items: &request.items[kept.clone()],
            actions: if self.layout.has_actions { &request.actions[kept] } else { &[] },
        };
        Ok(self.layout.ids(user, 0..tokens).collect())
    }

    /// The ids from a position on, which may be between an item and its action.
    fn history_from(&self, request: &RankRequest, start: usize) -> Result<Vec<i64>, RankError> {
        let [of_context, items, actions] = self.layout.prefix(start);
        let wanted = self.layout.context - of_context;
        if request.context.len() != wanted {
            return Err(RankError::Context { found: request.context.len(), wanted });
        }
        let all = (items + request.items.len(), actions + request.actions.len());
        if self.layout.has_actions && all.0 != all.1 {
            return Err(RankError::Actions { items: all.0, actions: all.1 });
        }
        let total = self.layout.history_tokens(all.0);
        if self.max_history_tokens < total {
            return Err(RankError::TooLong { found: total, most: self.max_history_tokens });
        }
        let id = |position: usize| match self.layout.token(position) {
            HistoryToken::Context(feature) => request.context[feature - of_context],
            HistoryToken::Item(item) => request.items[item - items],
            HistoryToken::Action(item) => request.actions[item - actions],
        };
        Ok((start..total).map(id).collect())
    }

    fn check(&self, request: &RankRequest) -> Result<(), RankError> {
        if !self.layout.has_actions && !request.actions.is_empty() {
            return Err(RankError::NoActions { actions: request.actions.len() });
        }
        let (found, most) = (request.candidates.len(), self.max_candidates);
        if most < found {
            return Err(RankError::TooManyCandidates { found, most });
        }
        let context = self.context_tables.iter().zip(&request.context);
        let items = request.items.iter().chain(&request.candidates);
        let items = items.map(|id| (&self.item_table, id));
        let of_actions = |table| request.actions.iter().map(move |id| (table, id));
        let actions = self.action_table.iter().flat_map(of_actions);
        let negative = context.chain(items).chain(actions).find(|(_, id)| **id < 0);
        if let Some((table, id)) = negative {
            let feature = self.tables.name(*table).to_owned();
            return Err(RankError::NegativeId { feature, id: *id });
        }
        Ok(())
    }

    fn table_at(&self, position: usize) -> TableId {
        match self.layout.token(position) {
            HistoryToken::Context(feature) => self.context_tables[feature],
            HistoryToken::Item(_) => self.item_table,
            HistoryToken::Action(_) => self.action_table.expect("the model has actions"),
        }
    }

    fn row(
        &self,
        table: TableId,
        id: i64,
        strict: bool,
        unknown: &mut usize,
    ) -> Result<i32, RankError> {
        let found = self.tables.look_up(table, id);
        if !found.is_known {
            if strict {
                return Err(RankError::UnknownId { table: self.tables.name(table).to_owned(), id });
            }
            *unknown += 1;
        }
        Ok(found.row)
    }
}
