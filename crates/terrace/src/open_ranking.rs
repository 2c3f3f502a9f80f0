//! Opens a recommender as the options say.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use terrace_embedding::ParameterServer;
use terrace_engine::rank::{RankConfig, RankSetup, RankSource, ServedFeatures, Truncate};
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

/// `models` are served beside each other. Where `tables` has a model of its name, its embedding
/// rows are those.
pub fn open(
    options: &EngineOptions,
    models: usize,
    own: RecommenderOptions,
    tables: Option<&Arc<ParameterServer>>,
) -> Result<RankedModel> {
    let ModelChoice { name, source: folder } = options.only_model()?;
    if options.adapter.is_some() {
        bail!("{folder} is a recommender: --adapter is of language models; leave it out");
    }
    let mut files = HstuFiles::open(Path::new(folder))
        .with_context(|| format!("cannot open the recommender {folder}"))?;
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
    let features = tables.map(|tables| ServedFeatures::find(tables, &name, &files.config));
    let features = features.transpose()?.flatten().map(Arc::new);
    let source = RankSource::of(&files, features.as_ref());
    let engine = RankSetup { source, config }.start()?;
    Ok(RankedModel {
        name,
        engine,
        folder: folder.into(),
        hash_store: files.hash_store.clone(),
        num_tasks: files.config.num_tasks,
    })
}
