//! What all requests share.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::bounded_work::WorkMemory;
use crate::kv_handles::RecentResponses;
use crate::metrics::RequestMetrics;
use crate::openai::responses::ResponseStore;
use crate::server_config::ServerConfig;
use crate::services::Services;
use crate::shutdown::CancelSignal;

pub struct AppState {
    pub config: ServerConfig,
    pub services: Services,
    pub metrics: Arc<RequestMetrics>,
    /// Responses that can be retrieved.
    pub responses: ResponseStore,
    /// Responses that a handle can be made of.
    pub recent: Arc<RecentResponses>,
    /// For what is made of the requests' bodies.
    pub memory: Arc<WorkMemory>,
    /// Raised when running requests must end.
    pub cancel: CancelSignal,
    /// Unix seconds; OpenAI shows when a model was made, we show since when it is served.
    pub started: u64,
}

impl AppState {
    pub fn new(config: ServerConfig, services: Services, cancel: CancelSignal) -> Self {
        let memory = Arc::clone(services.inference.memory());
        Self {
            config,
            services,
            metrics: Arc::new(RequestMetrics::new()),
            responses: ResponseStore::default(),
            recent: Arc::default(),
            memory,
            cancel,
            started: unix_seconds(),
        }
    }
}

pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
