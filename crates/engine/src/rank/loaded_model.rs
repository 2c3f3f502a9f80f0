//! What a checkpoint becomes on a device.

use std::sync::Arc;

use terrace_embedding::{EmbeddingTable, Residence, TableSet};
use terrace_kernels::Ops;
use terrace_model::hstu::{HstuConfig, HstuModel, TableTensors};

use super::item_search::ItemSearch;
use super::model_identity::ModelIdentity;
use super::rank_source::RankSource;
use crate::error::Error;

pub struct LoadedModel {
    pub(super) model: HstuModel,
    pub(super) tables: Arc<TableSet>,
    /// Of a model that retrieves.
    pub(super) search: Option<ItemSearch>,
    pub(super) config: HstuConfig,
    pub(super) identity: ModelIdentity,
}

impl LoadedModel {
    /// Weights are hashed while they are placed.
    pub(super) fn load(
        source: &RankSource<'_>,
        ops: &Ops,
        residence: Residence,
    ) -> Result<Self, Error> {
        let hashing = source.hash_weights();
        let model = source.model(ops)?;
        let tables = source.tables()?.into_iter().map(place_table).collect::<Result<_, _>>()?;
        let tables = Arc::new(TableSet::place(&ops.device(), tables, residence)?);
        let config = source.config().clone();
        let search = ItemSearch::new(ops, &config, &tables)?;
        let identity = source.identity(hashing)?;
        Ok(LoadedModel { model, tables, search, config, identity })
    }
}

fn place_table(table: TableTensors) -> Result<EmbeddingTable, Error> {
    let TableTensors { name, rows, keys } = table;
    Ok(EmbeddingTable::new(&name, rows, keys.as_deref(), None)?)
}
