//! Opens a recommender as the options say.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use terrace_engine::rank::{RankConfig, RankSetup, RankSource, Truncate};
use terrace_model::hstu::HstuFiles;
use terrace_server::RankedModel;

use crate::open_model;
use crate::options::{EngineOptions, ModelChoice};

/// Whether a model is a folder whose configuration says that it is an HSTU model.
pub fn is_recommender(model: &ModelChoice) -> bool {
    HstuFiles::is_in(Path::new(&model.source))
}

/// What is of recommenders alone.
#[derive(Clone, Copy)]
pub struct RecommenderOptions {
    pub truncate: Truncate,
    pub max_staleness: Option<Duration>,
    pub tables_on_host: bool,
}

/// `models` are served beside each other.
pub fn open(
    options: &EngineOptions,
    models: usize,
    own: RecommenderOptions,
) -> Result<RankedModel> {
    let ModelChoice { name, source } = options.only_model()?;
    let mut files = HstuFiles::open(Path::new(source))
        .with_context(|| format!("cannot open the recommender {source}"))?;
    files.hash_store = open_model::hash_store();
    let name = name.clone().unwrap_or_else(|| files.name.clone());
    let RecommenderOptions { truncate, max_staleness, tables_on_host } = own;
    let config = RankConfig {
        name: name.clone(),
        truncate,
        max_staleness,
        tables_on_host,
        ..options.rank_config(models)
    };
    let engine = RankSetup { source: RankSource::Files(&files), config }.start()?;
    Ok(RankedModel {
        name,
        engine,
        folder: source.into(),
        hash_store: files.hash_store.clone(),
        has_classes: files.config.num_tasks == 1,
    })
}
