//! What all requests share.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::api_error::ApiError;
use crate::config::ServerConfig;
use crate::metrics::Metrics;
use crate::served_model::ServedModel;
use crate::shutdown::CancelSignal;

pub struct AppState {
    pub config: ServerConfig,
    pub models: Vec<Arc<ServedModel>>,
    pub metrics: Arc<Metrics>,
    /// Raised when running answers must end.
    pub cancel: CancelSignal,
    /// Unix seconds; OpenAI shows when a model was made, we show since when it is served.
    pub started: u64,
}

impl AppState {
    pub fn new(config: ServerConfig, models: Vec<ServedModel>, cancel: CancelSignal) -> Self {
        Self {
            config,
            models: models.into_iter().map(Arc::new).collect(),
            metrics: Arc::new(Metrics::new()),
            cancel,
            started: unix_seconds(),
        }
    }

    /// The model of that name; without a name, the only one there is.
    pub fn model(&self, name: Option<&str>) -> Result<Arc<ServedModel>, ApiError> {
        let found = match (name, self.models.as_slice()) {
            (None, [only]) => Some(only),
            (None, _) => None,
            (Some(name), models) => models.iter().find(|model| model.name() == name),
        };
        found.cloned().ok_or_else(|| {
            let known: Vec<_> = self.models.iter().map(|model| model.name()).collect();
            ApiError::unknown_model(name.unwrap_or_default(), &known)
        })
    }
}

pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
