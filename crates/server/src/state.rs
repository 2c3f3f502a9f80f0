//! What all requests share.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::api_error::ApiError;
use crate::config::ServerConfig;
use crate::metrics::RequestMetrics;
use crate::openai::responses::ResponseStore;
use crate::served_model::ServedModel;
use crate::shutdown::CancelSignal;
use crate::work_memory::WorkMemory;

pub struct AppState {
    pub config: ServerConfig,
    pub models: Vec<Arc<ServedModel>>,
    pub metrics: Arc<RequestMetrics>,
    /// Responses that can be asked for again.
    pub responses: ResponseStore,
    /// For what is made of the requests' bodies.
    pub memory: WorkMemory,
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
            metrics: Arc::new(RequestMetrics::new()),
            responses: ResponseStore::default(),
            memory: WorkMemory::new(),
            cancel,
            started: unix_seconds(),
        }
    }

    /// The model of that name; without a name, the only one there is.
    pub fn model(&self, name: Option<&str>) -> Result<Arc<ServedModel>, ApiError> {
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
}

pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
