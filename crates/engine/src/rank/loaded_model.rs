//! What a checkpoint becomes on a device.

use std::sync::Arc;

use terrace_embedding::{EmbeddingTable, Residence, TableSet};
use terrace_kernels::Ops;
use terrace_model::hstu::{HstuConfig, HstuModel, HstuTask, TableTensors};

use super::item_search::ItemSearch;
use super::model_identity::ModelIdentity;
use super::rank_source::RankSource;
use super::rank_tables::RankTables;
use super::served_features::ServedFeatures;
use crate::error::Error;

pub struct LoadedModel {
    pub(super) model: HstuModel,
    pub(super) tables: RankTables,
    /// Where a parameter server has the tables.
    pub(super) features: Option<Arc<ServedFeatures>>,
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
        let config = source.config().clone();
        let place = |tables| TableSet::place(&ops.device(), tables, residence).map(Arc::new);
        let (model, tables, identity) = match source.features() {
            None => {
                let hashing = source.hash_weights();
                let model = source.model(ops)?;
                let tables = source.tables()?.into_iter().map(own_table);
                let tables = place(tables.collect::<Result<_, _>>()?)?;
                (model, RankTables::Own(tables), source.identity(hashing)?)
            }
            Some(features) if config.task == HstuTask::Retrieval => {
                let (tables, identity) = features.read_whole()?;
                let identity = source.identity_beside(identity)?;
                (source.model(ops)?, RankTables::Own(place(tables)?), identity)
            }
            Some(features) => {
                let identity = source.identity_beside(features.identity()?)?;
                (source.model(ops)?, RankTables::Served(Arc::clone(features)), identity)
            }
        };
        let search = match &tables {
            RankTables::Own(tables) => ItemSearch::new(ops, &config, tables)?,
            RankTables::Served(_) => None,
        };
        let features = source.features().map(Arc::clone);
        Ok(LoadedModel { model, tables, features, search, config, identity })
    }
}

fn own_table(table: TableTensors) -> Result<EmbeddingTable, Error> {
    let TableTensors { name, rows, keys } = table;
    Ok(EmbeddingTable::new(&name, rows, keys.as_deref(), None)?)
}
