//! Where a model comes from.

use terrace_kernels::Ops;
use terrace_model::WeightsHashing;
use terrace_model::hstu::{HstuConfig, HstuFiles, HstuModel, TableTensors};

use super::model_identity::ModelIdentity;
use crate::error::Error;

#[derive(Clone, Copy)]
pub enum RankSource<'a> {
    Files(&'a HstuFiles),
    /// Numbers that mean nothing, with so many rows in each table: for measurements.
    Random {
        config: &'a HstuConfig,
        rows: usize,
    },
}

impl RankSource<'_> {
    pub(super) fn config(&self) -> &HstuConfig {
        match self {
            RankSource::Files(files) => &files.config,
            RankSource::Random { config, .. } => config,
        }
    }

    pub(super) fn model(&self, ops: &Ops) -> Result<HstuModel, Error> {
        Ok(match self {
            RankSource::Files(files) => files.place(ops)?,
            RankSource::Random { config, .. } => HstuModel::random(ops, config)?,
        })
    }

    pub(super) fn tables(&self) -> Result<Vec<TableTensors>, Error> {
        Ok(match self {
            RankSource::Files(files) => files.tables()?,
            RankSource::Random { config, rows } => HstuModel::random_tables(config, *rows)?,
        })
    }

    pub(super) fn hash_weights(&self) -> Option<WeightsHashing> {
        match self {
            RankSource::Files(files) => Some(files.hash_weights()),
            RankSource::Random { .. } => None,
        }
    }

    pub(super) fn identity(&self, hashing: Option<WeightsHashing>) -> Result<ModelIdentity, Error> {
        match (self, hashing) {
            (RankSource::Files(files), Some(hashing)) => Ok(ModelIdentity {
                layers: *files.fingerprint()?.as_bytes(),
                tables: *hashing.wait().as_bytes(),
            }),
            _ => Ok(ModelIdentity { layers: [0; 32], tables: [0; 32] }),
        }
    }
}
