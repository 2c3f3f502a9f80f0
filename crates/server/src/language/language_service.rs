//! The language models that are served, by name.

use std::sync::Arc;

use terrace_engine::text::LanguageModel;

use crate::api_error::{ApiError, ApiResult};
use crate::error::Error;
use crate::language::served_model::ServedModel;

/// Invariant: no two models have the same name.
#[derive(Default)]
pub struct LanguageService {
    models: Vec<Arc<ServedModel>>,
}

impl LanguageService {
    /// `chat_template` replaces every model's own: a file, or the template itself.
    pub fn new(
        models: Vec<Arc<LanguageModel>>,
        chat_template: Option<&str>,
    ) -> Result<Self, Error> {
        for (index, model) in models.iter().enumerate() {
            if models[..index].iter().any(|other| other.name() == model.name()) {
                return Err(Error::DuplicateModel(model.name().to_owned()));
            }
        }
        let served = |model| ServedModel::new(model, chat_template).map(Arc::new);
        Ok(Self { models: models.into_iter().map(served).collect::<Result<_, _>>()? })
    }

    pub fn models(&self) -> &[Arc<ServedModel>] {
        &self.models
    }

    /// The model of that name; without a name, the only one there is.
    pub fn model(&self, name: Option<&str>) -> ApiResult<Arc<ServedModel>> {
        let known = || self.models.iter().map(|model| model.name()).collect::<Vec<_>>().join(", ");
        match (name, self.models.as_slice()) {
            (None, [only]) => Ok(Arc::clone(only)),
            (None, _) => {
                let message = format!("model is missing; this server has {}", known());
                Err(ApiError::invalid("model", message))
            }
            (Some(name), models) => {
                let found = models.iter().find(|model| model.name() == name).cloned();
                found.ok_or_else(|| ApiError::unknown_model(name, &known()))
            }
        }
    }

    /// Whether the engines of all run.
    pub fn is_running(&self) -> bool {
        self.models.iter().all(|model| model.engine().is_running())
    }
}
