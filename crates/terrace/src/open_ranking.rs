//! Opens a recommender as the options say.

use std::path::Path;

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

/// `models` are served beside each other.
pub fn open(options: &EngineOptions, models: usize, truncate: Truncate) -> Result<RankedModel> {
    let ModelChoice { name, source } = options.only_model()?;
    let mut files = HstuFiles::open(Path::new(source))
        .with_context(|| format!("cannot open the recommender {source}"))?;
    files.hash_store = open_model::hash_store();
    let config = RankConfig { truncate, ..options.rank_config(models) };
    let engine = RankSetup { source: RankSource::Files(&files), config }.start()?;
    Ok(RankedModel {
        name: name.clone().unwrap_or_else(|| files.name.clone()),
        engine,
        has_classes: files.config.num_tasks == 1,
    })
}
