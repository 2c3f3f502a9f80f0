//! The service as a whole: built from a configuration and models, run until told to stop.

use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt;
use terrace_engine::text::LanguageModel;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::config::ServerConfig;
use crate::error::Error;
use crate::router::router;
use crate::served_model::ServedModel;
use crate::shutdown::{Canceller, cancel_signal};
use crate::state::AppState;

/// How long cancelled answers have to tell their clients.
const FAREWELL: Duration = Duration::from_secs(2);

pub struct Server {
    state: Arc<AppState>,
    canceller: Canceller,
}

impl Server {
    pub fn new(config: ServerConfig, models: Vec<Arc<LanguageModel>>) -> Result<Self, Error> {
        if models.is_empty() {
            return Err(Error::NoModel);
        }
        for (index, model) in models.iter().enumerate() {
            if models[..index].iter().any(|other| other.name() == model.name()) {
                return Err(Error::DuplicateModel(model.name().to_owned()));
            }
        }
        let template = config.chat_template.as_deref();
        let models = models.into_iter().map(|model| ServedModel::new(model, template));
        let models = models.collect::<Result<_, _>>()?;
        let (canceller, cancel) = cancel_signal();
        Ok(Self { state: Arc::new(AppState::new(config, models, cancel)), canceller })
    }

    /// What answers requests, for those who bring them without a connection.
    pub fn routes(&self) -> Router {
        router(Arc::clone(&self.state))
    }

    /// Answers until `shutdown`; then takes no new connection, lets running answers go on for
    /// `drain_seconds`, and cancels what is left.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Error> {
        let drain = Duration::from_secs(self.state.config.drain_seconds);
        let (told, stop) = oneshot::channel();
        let shutdown = async move {
            shutdown.await;
            tracing::info!(drain_seconds = drain.as_secs(), "stopping; running answers may end");
            // The receiver is gone only if serving has failed already.
            let _ = told.send(());
        };
        // A token is a small packet that must not wait for the next one.
        let listener = listener.tap_io(|stream| {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::warn!("a connection stays slow: {error}");
            }
        });
        let app = router(self.state);
        let serving = axum::serve(listener, app).with_graceful_shutdown(shutdown).into_future();
        let mut serving = std::pin::pin!(serving);

        tokio::select! {
            ended = &mut serving => return Ok(ended?),
            _ = stop => {}
        }
        if let Ok(ended) = timeout(drain, &mut serving).await {
            return Ok(ended?);
        }
        tracing::warn!("the time to drain is over; cancelling what still runs");
        self.canceller.cancel();
        match timeout(FAREWELL, serving).await {
            Ok(ended) => Ok(ended?),
            Err(_) => Ok(()),
        }
    }
}
