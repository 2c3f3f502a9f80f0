//! The rows of embedding tables that steps take.

use std::sync::Arc;

use terrace_device::View;
use terrace_embedding::{TableId, TableSet};
use terrace_model::hstu::{ContextRows, HstuConfig, StreamRows, TokenRows};

#[derive(Clone)]
pub(super) struct StepTables {
    tables: Arc<TableSet>,
    item_table: TableId,
    /// Where context and items are embedded apart. Without a context that is the items' own.
    context_table: Option<TableId>,
}

impl StepTables {
    pub fn new(config: &HstuConfig, tables: &Arc<TableSet>) -> Self {
        let of = |name: &str| tables.table(name).expect("each feature has a table");
        let item_table = of(&config.item_feature);
        let context = config.contextual_features.first().map_or(item_table, |name| of(name));
        StepTables {
            tables: Arc::clone(tables),
            item_table,
            context_table: config.has_streams().then_some(context),
        }
    }

    /// ids, context_ids, chosen: i32 `[tokens]`; the last two where context and items are embedded
    /// apart.
    pub fn rows<'a>(&'a self, ids: View<'a>, apart: Option<[View<'a>; 2]>) -> TokenRows<'a> {
        let items = StreamRows { rows: self.tables.rows(self.item_table), ids };
        let apart = self.context_table.zip(apart).map(|(table, [ids, chosen])| ContextRows {
            context: StreamRows { rows: self.tables.rows(table), ids },
            chosen,
        });
        TokenRows { items, apart }
    }
}
