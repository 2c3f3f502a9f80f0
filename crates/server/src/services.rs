//! What this server serves, by kind.
//!
//! Each kind is a field with a type of its own, which its routes use; kinds have no type in common.

use std::sync::Arc;

use crate::bounded_work::WorkMemory;
use crate::kserve::{InferenceModel, ModelRegistry, RecommenderModel, TableModel};
use crate::language::LanguageService;
use crate::metrics::RequestMetrics;
use crate::ranking::RankingService;
use crate::tables::TableService;

#[derive(Default)]
pub struct Services {
    pub language: LanguageService,
    pub ranking: RankingService,
    pub tables: TableService,
    /// What answers inference requests: the models above, as tensors, and others.
    pub inference: Arc<ModelRegistry>,
}

impl Services {
    /// Serves recommenders and tables as models of tensors too.
    pub fn add_tensor_models(&self, memory: &Arc<WorkMemory>, metrics: &Arc<RequestMetrics>) {
        let recommenders = self.ranking.models().iter();
        let recommenders = recommenders.filter_map(|model| RecommenderModel::new(model, metrics));
        for model in recommenders {
            self.add_tensor_model(Arc::new(model));
        }
        for model in self.tables.sets().iter().flat_map(|it| TableModel::of_all(it, memory)) {
            self.add_tensor_model(Arc::new(model));
        }
    }

    fn add_tensor_model(&self, model: Arc<dyn InferenceModel>) {
        if let Err(name) = self.inference.add_fixed(model) {
            tracing::info!(
                model = name,
                "its tables are served at /v1/tables alone: under /v2 its name is another model's"
            );
        }
    }

    /// Whether there is something to serve, and the engines and consumers of all run.
    pub fn are_running(&self) -> bool {
        let Services { language, ranking, tables, inference } = self;
        let has_models = !language.models().is_empty() || !ranking.models().is_empty();
        let is_empty = !has_models && tables.is_empty() && inference.is_empty();
        let is_running = language.is_running() && ranking.is_running() && tables.is_running();
        !is_empty && is_running && inference.is_ready()
    }
}
