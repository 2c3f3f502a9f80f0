//! The recommenders that are served, by name.

use std::path::PathBuf;
use std::sync::Arc;

use terrace_engine::rank::RankHandle;
use terrace_model::HashStore;

use crate::api_error::{ApiError, ApiResult};
use crate::error::Error;

/// A recommender and its name.
#[derive(Clone)]
pub struct RankedModel {
    pub name: String,
    pub engine: RankHandle,
    /// Where its checkpoint is, and hashes of weights are kept.
    pub folder: PathBuf,
    pub hash_store: Option<HashStore>,
    /// Tasks that the model scores candidates for, each by itself. One is that of classes, which
    /// exclude each other.
    pub num_tasks: usize,
}

impl RankedModel {
    /// Whether the outputs of a candidate exclude each other.
    pub fn has_classes(&self) -> bool {
        self.num_tasks == 1
    }
}

/// Invariant: no two models have the same name.
#[derive(Default)]
pub struct RankingService {
    models: Vec<Arc<RankedModel>>,
}

impl RankingService {
    pub fn new(models: Vec<RankedModel>) -> Result<Self, Error> {
        for (index, model) in models.iter().enumerate() {
            if models[..index].iter().any(|other| other.name == model.name) {
                return Err(Error::DuplicateModel(model.name.clone()));
            }
        }
        Ok(RankingService { models: models.into_iter().map(Arc::new).collect() })
    }

    pub fn models(&self) -> &[Arc<RankedModel>] {
        &self.models
    }

    /// The model of that name; without a name, the only one there is.
    pub fn model(&self, name: Option<&str>) -> ApiResult<Arc<RankedModel>> {
        let names = || self.models.iter().map(|model| model.name.as_str()).collect::<Vec<_>>();
        match (name, self.models.as_slice()) {
            (None, [only]) => Ok(Arc::clone(only)),
            (None, []) => {
                let message = "no recommender is served here; start with --model FOLDER";
                Err(ApiError::invalid("model", message))
            }
            (None, _) => {
                let known = names().join(", ");
                let message = format!("model is missing; this server ranks with {known}");
                Err(ApiError::invalid("model", message))
            }
            (Some(name), models) => {
                let found = models.iter().find(|model| model.name == name).cloned();
                found.ok_or_else(|| ApiError::unknown_model(name, &names().join(", ")))
            }
        }
    }

    /// Whether the engines of all run.
    pub fn is_running(&self) -> bool {
        self.models.iter().all(|model| model.engine.is_running())
    }
}
