//! The rows of embedding tables that steps take.

use std::sync::Arc;

use terrace_device::View;
use terrace_embedding::{TableId, TableSet};
use terrace_model::hstu::{ContextRows, HstuConfig, StreamRows, TokenRows};

use super::job_rows::RowDims;
use super::rank_tables::RankTables;

#[derive(Clone)]
pub(super) enum StepTables {
    Own {
        tables: Arc<TableSet>,
        item_table: TableId,
        /// Where context and items are embedded apart. Without a context that is the items' own.
        context_table: Option<TableId>,
    },
    /// Each step brings the rows of its tokens.
    Brought(RowDims),
}

/// Rows that a step brings: f32 `[tokens, dim]`.
#[derive(Clone, Copy)]
pub(super) struct StepRows<'a> {
    pub items: View<'a>,
    pub context: Option<View<'a>>,
}

impl StepTables {
    pub fn new(config: &HstuConfig, tables: &RankTables) -> Self {
        let tables = match tables {
            RankTables::Own(tables) => Arc::clone(tables),
            RankTables::Served(features) => return StepTables::Brought(features.dims()),
        };
        let of = |name: &str| tables.table(name).expect("each feature has a table");
        let item_table = of(&config.item_feature);
        let context = config.contextual_features.first().map_or(item_table, |name| of(name));
        let context_table = config.has_streams().then_some(context);
        StepTables::Own { tables, item_table, context_table }
    }

    /// How wide the rows are that steps bring.
    pub fn brought(&self) -> Option<RowDims> {
        match self {
            StepTables::Own { .. } => None,
            StepTables::Brought(dims) => Some(*dims),
        }
    }

    /// ids, context_ids, chosen: i32 `[tokens]`; the last two where context and items are embedded
    /// apart.
    pub fn rows<'a>(
        &'a self,
        brought: Option<StepRows<'a>>,
        ids: View<'a>,
        apart: Option<[View<'a>; 2]>,
    ) -> TokenRows<'a> {
        let StepRows { items, context } = match self {
            StepTables::Own { tables, item_table, context_table } => StepRows {
                items: tables.rows(*item_table),
                context: context_table.map(|table| tables.rows(table)),
            },
            StepTables::Brought(_) => brought.expect("the step has brought its rows"),
        };
        let apart = context
            .zip(apart)
            .map(|(rows, [ids, chosen])| ContextRows { context: StreamRows { rows, ids }, chosen });
        TokenRows { items: StreamRows { rows: items, ids }, apart }
    }
}
