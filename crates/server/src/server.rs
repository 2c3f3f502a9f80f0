//! The service as a whole: built from a configuration and models, run until stopped.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::future::join_all;
use terrace_engine::text::LanguageModel;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::app_state::AppState;
use crate::connections::{Connections, Tls};
use crate::error::Error;
use crate::kserve::ModelRegistry;
use crate::language::LanguageService;
use crate::ranking::{RankedModel, RankingService};
use crate::router::router;
use crate::server_config::ServerConfig;
use crate::services::Services;
use crate::shutdown::{Canceller, cancel_signal};
use crate::tables::TableService;

/// How long cancelled requests have to notify their clients.
const FAREWELL: Duration = Duration::from_secs(2);

pub struct Server {
    state: Arc<AppState>,
    canceller: Canceller,
    tls: Option<Tls>,
}

impl Server {
    /// `inference` has models of tensors that are none of the others; whoever loads these has
    /// clones of `tables`.
    pub fn new(
        config: ServerConfig,
        models: Vec<Arc<LanguageModel>>,
        ranking: Vec<RankedModel>,
        tables: TableService,
        inference: Arc<ModelRegistry>,
    ) -> Result<Self, Error> {
        let has_models = !models.is_empty() || !ranking.is_empty();
        if !has_models && tables.is_empty() && inference.is_empty() {
            return Err(Error::NoModel);
        }
        let language = LanguageService::new(models, config.chat_template.as_deref())?;
        let ranking = RankingService::new(ranking)?;
        let (canceller, cancel) = cancel_signal();
        let services = Services { language, ranking, tables, inference };
        let state = Arc::new(AppState::new(config, services, cancel));
        state.services.add_tensor_models(&state.memory, &state.metrics);
        Ok(Self { state, canceller, tls: None })
    }

    /// Speaks HTTPS, and nothing else.
    pub fn with_tls(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// What answers requests, for those who bring them without a connection.
    pub fn routes(&self) -> Router {
        router(Arc::clone(&self.state))
    }

    /// Answers on all ports alike until `shutdown`; then takes no new connection, lets running
    /// requests go on for `drain_seconds`, and cancels what is left.
    pub async fn serve(self, listeners: Vec<TcpListener>, shutdown: impl Future<Output = ()>) {
        let drain = Duration::from_secs(self.state.config.drain_seconds);
        let limits = self.state.config.limits.clone();
        let connections = Connections::new(self.routes(), self.tls, &limits);
        tokio::select! {
            _ = join_all(listeners.iter().map(|listener| connections.accept(listener))) => {}
            () = shutdown => {}
        }
        drop(listeners);
        tracing::info!(drain_seconds = drain.as_secs(), "stopping; running requests may finish");
        let mut finished = std::pin::pin!(connections.finish());
        if timeout(drain, &mut finished).await.is_err() {
            tracing::warn!("the time to drain is over; cancelling what still runs");
            self.canceller.cancel();
            // Who does not listen by then is left alone.
            let _ = timeout(FAREWELL, finished).await;
        }
    }
}
