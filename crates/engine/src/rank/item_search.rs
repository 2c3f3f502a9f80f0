//! The items that score highest with queries, over all rows of the item table.

use std::sync::Arc;

use terrace_device::{Buffer, DType, View};
use terrace_embedding::{TableId, TableSet};
use terrace_kernels::{Ops, TopItemsArgs, Vector};
use terrace_model::hstu::{HstuConfig, HstuTask, Similarity};

use super::chunk_result::ChunkResult;
use super::rank_job::{JobId, RankJobs, WantedItems};
use super::rank_plan::RankPlan;
use super::scored_row::ScoredRow;
use crate::error::Error;

/// What a retrieval model searches, and the memory for it.
pub(super) struct ItemSearch {
    tables: Arc<TableSet>,
    table: TableId,
    /// Where rows count by their direction alone.
    item_scale: Option<Vector>,
    most: usize,
    scratch: Buffer,
    scores: Buffer,
    rows: Buffer,
}

/// A row shorter than this counts as this long.
const LEAST_LENGTH: f64 = 1e-6;

impl ItemSearch {
    /// Queries of one search.
    pub const QUERIES: usize = TopItemsArgs::QUERIES;

    /// `None` where the model does not retrieve.
    pub fn new(
        ops: &Ops,
        config: &HstuConfig,
        tables: &Arc<TableSet>,
    ) -> Result<Option<Self>, Error> {
        if config.task != HstuTask::Retrieval {
            return Ok(None);
        }
        let table = tables.table(&config.item_feature).expect("each feature has a table");
        let item_scale = match config.item_similarity() {
            Similarity::Dot => None,
            Similarity::Cosine => {
                let rows = tables.host_rows(table)?;
                let inverse = |row: &[f32]| {
                    let squares: f64 = row.iter().map(|x| f64::from(*x).powi(2)).sum();
                    (1.0 / squares.sqrt().max(LEAST_LENGTH)) as f32
                };
                let scales: Vec<f32> = rows.chunks_exact(tables.dim(table)).map(inverse).collect();
                Some(ops.place_vector(&scales)?)
            }
        };
        let (items, most) = (tables.rows_of(table).len(), config.max_candidates);
        let device = ops.device();
        let results = Self::QUERIES * most;
        Ok(Some(ItemSearch {
            scratch: device.take(ops.top_items_scratch_bytes(items, most), "scores of items")?,
            scores: device.take(DType::F32.bytes() * results, "scores of items")?,
            rows: device.take(DType::I32.bytes() * results, "rows of items")?,
            tables: Arc::clone(tables),
            table,
            item_scale,
            most,
        }))
    }

    /// How many items a query can ask for.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Begins a search · queries: f32 `[queries, dim]` · starts, excluded: as in `TopItemsArgs`.
    pub fn start(&mut self, ops: &Ops, queries: View<'_>, starts: View<'_>, excluded: View<'_>) {
        let [count, _] = queries.dims();
        let rows = self.tables.rows_of(self.table);
        let bytes = self.scratch.len();
        ops.top_items(TopItemsArgs {
            queries,
            items: self.tables.rows(self.table).rows(rows),
            item_scale: self.item_scale.as_ref(),
            excluded_starts: starts,
            excluded,
            scratch: self.scratch.view_mut(DType::U8, [bytes]),
            scores: self.scores.view_mut(DType::F32, [count, self.most]),
            rows: self.rows.view_mut(DType::I32, [count, self.most]),
        });
    }

    /// What was found: f32 and i32 `[queries, most]`, in no order.
    pub fn found(&self, queries: usize) -> [View<'_>; 2] {
        let shape = [queries, self.most];
        [self.scores.view(DType::F32, shape), self.rows.view(DType::I32, shape)]
    }
}

/// Queries, f32 `[queries, dim]`, with whose they are, as many at a time as one search takes.
pub(super) fn in_groups<'a, 'q>(
    queries: View<'a>,
    of: &'a [QueryOf<'q>],
) -> impl Iterator<Item = (View<'a>, &'a [QueryOf<'q>])> {
    of.chunks(ItemSearch::QUERIES).enumerate().map(move |(group, of_group)| {
        let first = group * ItemSearch::QUERIES;
        (queries.rows(first..first + of_group.len()), of_group)
    })
}

/// The query of a chunk.
pub(super) struct QueryOf<'a> {
    pub job: JobId,
    pub wanted: &'a WantedItems,
}

impl<'a> QueryOf<'a> {
    /// Those of a plan, in the order of its chunks.
    pub fn listed(plan: &RankPlan, jobs: &'a RankJobs) -> Vec<Self> {
        let queries = plan.chunks.iter().filter(|chunk| !chunk.candidates.is_empty());
        let query = |job: JobId| {
            let wanted = jobs[&job].wanted.as_ref().expect("a query wants items");
            QueryOf { job, wanted }
        };
        queries.map(|chunk| query(chunk.job)).collect()
    }

    /// The best first, as many as are wanted.
    pub fn result(&self, scores: &[f32], rows: &[i32]) -> ChunkResult {
        let found = rows.iter().zip(scores).filter(|(row, _)| 0 <= **row);
        let mut found: Vec<ScoredRow> =
            found.map(|(row, score)| ScoredRow { row: *row, score: *score }).collect();
        found.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.row.cmp(&b.row)));
        found.truncate(self.wanted.count);
        ChunkResult { job: self.job, logits: Vec::new(), found }
    }
}

/// The rows that some queries leave out, and where each query's part starts.
pub(super) fn listed_excluded(queries: &[QueryOf<'_>]) -> (Vec<i32>, Vec<i32>) {
    let mut starts = vec![0];
    let mut rows: Vec<i32> = Vec::new();
    for query in queries {
        rows.extend(&query.wanted.excluded);
        starts.push(rows.len() as i32);
    }
    (starts, rows)
}
