//! What is done with a request before the engine sees it: checks, ids as rows.

use std::sync::Arc;

use terrace_cache::users::{HistorySeed, PageContent, UserKey};
use terrace_embedding::{TableId, TableSet};
use terrace_model::hstu::{HistoryToken, HstuConfig, HstuTask, TokenLayout};

use super::job_rows::JobRows;
use super::loaded_model::LoadedModel;
use super::model_identity::ModelIdentity;
use super::rank_config::RankConfig;
use super::rank_error::RankError;
use super::rank_job::{Progress, RankJob};
use super::rank_request::RankRequest;
use super::rank_tables::RankTables;
use super::served_features::ServedFeatures;
use super::truncation::Truncate;

mod fetching;
mod retrieval;

pub(super) use retrieval::MOST_EXCLUDED;

/// Shared by all who ask.
pub struct RankFront {
    pub layout: TokenLayout,
    pub(super) tables: RankTables,
    /// Tables of the context's features, of items, and of actions.
    pub context_tables: Vec<TableId>,
    pub item_table: TableId,
    pub action_table: Option<TableId>,
    pub max_history_tokens: usize,
    pub max_candidates: usize,
    pub truncate: Truncate,
    /// Whether the model finds items, instead of scoring candidates.
    pub retrieves: bool,
    /// Whether it looks at the times of events.
    pub has_times: bool,
    pub(super) model: HstuConfig,
    /// Where a parameter server has the tables.
    pub(super) features: Option<Arc<ServedFeatures>>,
    pub(super) identity: ModelIdentity,
    pub(super) generation: u32,
    pub(super) pages: PageFormat,
    pub seed: HistorySeed,
}

/// What the bytes of pages depend on, beside the model.
#[derive(Clone, Debug)]
pub(super) struct PageFormat {
    pub name: String,
    pub arithmetic: Vec<u8>,
    pub layout: String,
}

impl PageFormat {
    fn seed(&self, identity: &ModelIdentity, generation: u32) -> HistorySeed {
        let content = PageContent {
            layers: &identity.layers,
            arithmetic: &self.arithmetic,
            format: self.layout.as_bytes(),
            tables: &identity.tables,
        };
        HistorySeed::new(&self.name, content, generation)
    }
}

impl RankFront {
    /// `generation` counts the checkpoints of an engine.
    pub(super) fn new(
        loaded: &LoadedModel,
        config: &RankConfig,
        pages: PageFormat,
        generation: u32,
    ) -> Self {
        let (model, tables) = (&loaded.config, &loaded.tables);
        let of = |name: &str| tables.table(name).expect("each feature has a table");
        RankFront {
            layout: model.token_layout(),
            context_tables: model.contextual_features.iter().map(|name| of(name)).collect(),
            item_table: of(&model.item_feature),
            action_table: model.action_feature.as_deref().map(of),
            tables: tables.clone(),
            max_history_tokens: model.max_history_tokens,
            max_candidates: model.max_candidates,
            truncate: config.truncate,
            retrieves: model.task == HstuTask::Retrieval,
            has_times: model.has_times(),
            seed: pages.seed(&loaded.identity, generation),
            model: model.clone(),
            features: loaded.features.clone(),
            identity: loaded.identity,
            generation,
            pages,
        }
    }

    /// Whether a parameter server has its embedding rows.
    pub fn has_served_tables(&self) -> bool {
        self.features.is_some()
    }

    /// The job of a request.
    pub fn job(&self, request: &RankRequest) -> Result<RankJob, RankError> {
        self.check(request)?;
        if self.has_times {
            return Err(RankError::NeedsTimes);
        }
        let start = request.start.unwrap_or(0);
        let ids = match request.start {
            None => self.whole_history(request)?,
            Some(start) => self.history_from(request, start)?,
        };
        let mut looked_up = LookedUp { is_strict: request.strict, unknown_ids: 0 };
        let rows = match &self.tables {
            RankTables::Own(tables) => {
                let history = self.rows(tables, start, &ids, &mut looked_up)?;
                let mut candidates = vec![0; request.candidates.len()];
                let (table, asked) = (self.item_table, &request.candidates);
                look_up(tables, table, asked, &mut candidates, 1, &mut looked_up)?;
                JobRows::Numbers { history, candidates }
            }
            RankTables::Served(_) => {
                let candidates = request.candidates.clone();
                JobRows::Unfetched { candidates, is_strict: request.strict }
            }
        };
        let root = self.seed.root(&request.user);
        Ok(RankJob {
            generation: self.generation,
            user: request.user.clone(),
            priority: request.priority,
            ids,
            rows,
            root,
            keys: None,
            wanted: None,
            times: None,
            start: request.start,
            unknown_ids: looked_up.unknown_ids,
            timeout_ms: request.timeout_ms,
            progress: Progress { is_new: true, ..Progress::default() },
        })
    }

    /// The job of a history that is known by its ids, with nothing to be ranked after it.
    pub fn job_of_history(&self, user: UserKey, ids: Vec<i64>) -> RankJob {
        let mut looked_up = LookedUp::default();
        let rows = match &self.tables {
            RankTables::Own(tables) => {
                let history = self.rows(tables, 0, &ids, &mut looked_up);
                let history = history.expect("nothing is refused");
                JobRows::Numbers { history, candidates: Vec::new() }
            }
            RankTables::Served(_) => {
                JobRows::Unfetched { candidates: Vec::new(), is_strict: false }
            }
        };
        let root = self.seed.root(&user);
        RankJob {
            generation: self.generation,
            user,
            priority: 0,
            ids,
            rows,
            root,
            keys: None,
            wanted: None,
            times: None,
            start: None,
            unknown_ids: looked_up.unknown_ids,
            timeout_ms: None,
            progress: Progress { is_new: true, ..Progress::default() },
        }
    }

    /// A history that is known by its ids, and what follows it, as one request.
    pub fn continued(&self, ids: &[i64], more: &RankRequest) -> RankRequest {
        let mut whole = RankRequest { start: None, ..more.clone() };
        let new_context = !more.context.is_empty();
        let (mut context, mut items, mut actions) = (Vec::new(), Vec::new(), Vec::new());
        for (position, id) in ids.iter().enumerate() {
            match self.layout.token(position) {
                HistoryToken::Context(_) => context.push(*id),
                HistoryToken::Item(_) => items.push(*id),
                HistoryToken::Action(_) => actions.push(*id),
            }
        }
        items.extend(&more.items);
        actions.extend(&more.actions);
        (whole.items, whole.actions) = (items, actions);
        if !new_context {
            whole.context = context;
        }
        whole
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
        let kept = self.kept_items(items);
        let mut ids = Vec::with_capacity(self.layout.history_tokens(kept.len()));
        ids.extend(&request.context);
        match self.layout.has_actions {
            false => ids.extend(&request.items[kept]),
            true => {
                ids.resize(ids.capacity(), 0);
                let pairs = request.items[kept.clone()].iter().zip(&request.actions[kept]);
                let places = ids[self.layout.context..].as_chunks_mut().0.iter_mut();
                places.zip(pairs).for_each(|(place, (item, action))| *place = [*item, *action]);
            }
        }
        Ok(ids)
    }

    /// The items that stay of a history of so many.
    fn kept_items(&self, items: usize) -> std::ops::Range<usize> {
        let most = (self.max_history_tokens - self.layout.context) / self.layout.item_tokens();
        self.truncate.kept(items, most)
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
        for (table, id) in self.context_tables.iter().zip(&request.context) {
            self.check_ids(*table, std::slice::from_ref(id))?;
        }
        self.check_ids(self.item_table, &request.items)?;
        self.check_ids(self.item_table, &request.candidates)?;
        self.action_table.map_or(Ok(()), |table| self.check_ids(table, &request.actions))
    }

    fn check_ids(&self, table: TableId, ids: &[i64]) -> Result<(), RankError> {
        // Without a branch for each: the processor takes several at once.
        if 0 <= ids.iter().fold(0, |all, id| all | id) {
            return Ok(());
        }
        let id = *ids.iter().find(|id| **id < 0).expect("one has the sign");
        Err(RankError::NegativeId { feature: self.tables.name(table).to_owned(), id })
    }

    /// The rows of ids that begin at a position: feature by feature, for a table's look-ups are
    /// fastest together.
    fn rows(
        &self,
        tables: &TableSet,
        start: usize,
        ids: &[i64],
        looked_up: &mut LookedUp,
    ) -> Result<Vec<i32>, RankError> {
        let mut rows = vec![0; ids.len()];
        let of_context = self.layout.context.saturating_sub(start).min(ids.len());
        for index in 0..of_context {
            let (table, one) = (self.context_tables[start + index], index..index + 1);
            look_up(tables, table, &ids[one.clone()], &mut rows[one], 1, looked_up)?;
        }
        let (rows_after, ids_after) = (&mut rows[of_context..], &ids[of_context..]);
        let step = self.layout.item_tokens();
        for first in 0..step.min(ids_after.len()) {
            let table = match self.layout.token(start + of_context + first) {
                HistoryToken::Action(_) => self.action_table.expect("the model has actions"),
                _ => self.item_table,
            };
            let (ids, rows) = (&ids_after[first..], &mut rows_after[first..]);
            look_up(tables, table, ids, rows, step, looked_up)?;
        }
        Ok(rows)
    }
}

/// Every `step`th id of one table.
fn look_up(
    tables: &TableSet,
    table: TableId,
    ids: &[i64],
    rows: &mut [i32],
    step: usize,
    looked_up: &mut LookedUp,
) -> Result<(), RankError> {
    let index = tables.index(table);
    let unknown = match step {
        1 => index.look_up_many(ids.iter().zip(rows.iter_mut())),
        _ => {
            let rows = rows.iter_mut().step_by(step);
            index.look_up_many(ids.iter().step_by(step).zip(rows))
        }
    };
    looked_up.unknown_ids += unknown;
    if unknown == 0 || !looked_up.is_strict {
        return Ok(());
    }
    let id = ids.iter().step_by(step).find(|id| !index.look_up(**id).is_known);
    let table = tables.name(table).to_owned();
    Err(RankError::UnknownId { table, id: *id.expect("one is not known") })
}

/// What look-ups have found so far.
#[derive(Default)]
struct LookedUp {
    /// Ids that a table has not got are refused.
    is_strict: bool,
    unknown_ids: usize,
}
