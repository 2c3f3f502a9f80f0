//! Where a model comes from.

use std::sync::Arc;

use terrace_kernels::Ops;
use terrace_model::WeightsHashing;
use terrace_model::hstu::{HstuConfig, HstuFiles, HstuModel, TableTensors};

use super::model_identity::ModelIdentity;
use super::served_features::ServedFeatures;
use crate::error::Error;

#[derive(Clone, Copy)]
pub enum RankSource<'a> {
    Files(&'a HstuFiles),
    /// Layers from files, embedding rows from a parameter server.
    Served {
        files: &'a HstuFiles,
        features: &'a Arc<ServedFeatures>,
    },
    /// Numbers that mean nothing, with so many rows in each table: for measurements.
    Random {
        config: &'a HstuConfig,
        rows: usize,
    },
}

impl<'a> RankSource<'a> {
    /// Of files, and of tables that a parameter server has, if any.
    pub fn of(files: &'a HstuFiles, features: Option<&'a Arc<ServedFeatures>>) -> Self {
        match features {
            None => RankSource::Files(files),
            Some(features) => RankSource::Served { files, features },
        }
    }

    pub(super) fn config(&self) -> &HstuConfig {
        match self {
            RankSource::Files(files) | RankSource::Served { files, .. } => &files.config,
            RankSource::Random { config, .. } => config,
        }
    }

    pub(super) fn model(&self, ops: &Ops) -> Result<HstuModel, Error> {
        Ok(match self {
            RankSource::Files(files) | RankSource::Served { files, .. } => files.place(ops)?,
            RankSource::Random { config, .. } => HstuModel::random(ops, config)?,
        })
    }

    /// Those that a parameter server has.
    pub(super) fn features(&self) -> Option<&'a Arc<ServedFeatures>> {
        match self {
            RankSource::Served { features, .. } => Some(features),
            _ => None,
        }
    }

    pub(super) fn tables(&self) -> Result<Vec<TableTensors>, Error> {
        Ok(match self {
            RankSource::Files(files) | RankSource::Served { files, .. } => files.tables()?,
            RankSource::Random { config, rows } => HstuModel::random_tables(config, *rows)?,
        })
    }

    pub(super) fn hash_weights(&self) -> Option<WeightsHashing> {
        match self {
            RankSource::Files(files) => Some(files.hash_weights()),
            _ => None,
        }
    }

    pub(super) fn identity(&self, hashing: Option<WeightsHashing>) -> Result<ModelIdentity, Error> {
        self.identity_beside(hashing.map_or([0; 32], |hashing| *hashing.wait().as_bytes()))
    }

    /// Of layers beside tables that are known by a hash.
    pub(super) fn identity_beside(&self, tables: [u8; 32]) -> Result<ModelIdentity, Error> {
        Ok(match self {
            RankSource::Files(files) | RankSource::Served { files, .. } => {
                ModelIdentity { layers: *files.fingerprint()?.as_bytes(), tables }
            }
            RankSource::Random { .. } => ModelIdentity { layers: [0; 32], tables: [0; 32] },
        })
    }
}
