//! The connections of the service: accepted, read and written, each by a task of its own.
//!
//! A client that says nothing, takes nothing or leaves half-way costs its own connection and
//! nobody else's time: accepting does not wait for handshakes, and each wait has an end. A client
//! that closes its side has left, and its request is cancelled.

mod stall_limit;
mod tls;

pub use tls::Tls;

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use crate::limits::Limits;
use stall_limit::StallLimit;

pub struct Connections {
    open: GracefulShutdown,
    service: Service,
}

/// What a connection's task needs.
#[derive(Clone)]
struct Service {
    app: Router,
    http: http1::Builder,
    tls: Option<Tls>,
    idle: Duration,
    stall: Duration,
}

/// Before the next try when the system has no more sockets to give.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);

impl Connections {
    pub fn new(app: Router, tls: Option<Tls>, limits: &Limits) -> Self {
        let (idle, stall) = (limits.idle_time, limits.stall_time);
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(idle);
        let service = Service { app, http, tls, idle, stall };
        Self { open: GracefulShutdown::new(), service }
    }

    /// Takes new connections for ever.
    pub async fn accept(&self, listener: &TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let open = self.open.watcher();
                    tokio::spawn(self.service.clone().hold(stream, open));
                }
                Err(error) => {
                    tracing::warn!("cannot take a connection: {error}");
                    sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    }

    /// Waits for the requests under way; idle connections are closed at once.
    pub async fn finish(self) {
        self.open.shutdown().await;
    }
}

impl Service {
    async fn hold(self, stream: TcpStream, open: Watcher) {
        // A token is a small packet that must not wait for the next one.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("a connection stays slow: {error}");
        }
        let Some(tls) = self.tls.clone() else { return self.talk(stream, open).await };
        match timeout(self.idle, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.talk(stream, open).await,
            Ok(Err(error)) => tracing::debug!("a client could not agree on TLS: {error}"),
            Err(_) => tracing::debug!("a client took too long to agree on TLS"),
        }
    }

    async fn talk(
        self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        open: Watcher,
    ) {
        let stream = TokioIo::new(StallLimit::new(stream, self.stall));
        let app = TowerToHyperService::new(self.app);
        if let Err(error) = open.watch(self.http.serve_connection(stream, app)).await {
            tracing::debug!("a connection broke: {error}");
        }
    }
}

#[cfg(test)]
mod tests;
