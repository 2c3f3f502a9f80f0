//! The connections of the service: accepted, read and written, each by a task of its own.
//!
//! A client that says nothing, takes nothing or leaves half-way costs its own connection and
//! nobody else's time: accepting does not wait for handshakes, and each wait has an end. A client
//! that has gone ends its request.

mod client_stream;
mod drained_body;
mod first_bytes;
mod held_body;
mod http1;
mod http2;
mod refusal;
mod replayed_stream;
mod stall_limit;
mod stopping;
mod tls;
mod uri_limit;

pub use held_body::HeldBody;
pub use tls::Tls;
pub use uri_limit::check_uri;

use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::limits::Limits;
use first_bytes::FirstBytes;
use http1::Http1;
use http2::Http2;
use replayed_stream::ReplayedStream;
use stall_limit::StallLimit;
use stopping::Stopping;

pub struct Connections {
    service: Service,
    /// Each connection holds a receiver.
    stop: watch::Sender<bool>,
}

/// What a connection's task needs.
#[derive(Clone)]
struct Service {
    app: Router,
    http1: Http1,
    http2: Http2,
    tls: Option<Tls>,
    idle: Duration,
    stall: Duration,
}

/// Before the next try when the system has no more sockets to give.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);

impl Connections {
    pub fn new(app: Router, tls: Option<Tls>, limits: &Limits) -> Self {
        let (http1, http2) = (Http1::new(limits), Http2::new(limits));
        let (idle, stall) = (limits.idle_time, limits.stall_time);
        let service = Service { app, http1, http2, tls, idle, stall };
        Self { service, stop: watch::Sender::new(false) }
    }

    /// Takes new connections for ever.
    pub async fn accept(&self, listener: &TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let stopping = Stopping::new(self.stop.subscribe());
                    tokio::spawn(self.service.clone().hold(stream, stopping));
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
        self.stop.send_replace(true);
        self.stop.closed().await;
    }
}

impl Service {
    async fn hold(self, stream: TcpStream, stopping: Stopping) {
        // A token is a small packet that must not wait for the next one.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("a connection stays slow: {error}");
        }
        let Some(tls) = &self.tls else {
            return self.hold_plain(stream, stopping).await;
        };
        match timeout(self.idle, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                let is_http2 = tls::is_http2(&stream);
                let stream = StallLimit::new(stream, self.stall);
                match is_http2 {
                    true => self.http2.serve(self.app, stream, stopping).await,
                    false => self.http1.serve(self.app, stream, stopping).await,
                }
            }
            Ok(Err(error)) => tracing::debug!("a client could not agree on TLS: {error}"),
            Err(_) => tracing::debug!("a client took too long to agree on TLS"),
        }
    }

    /// Without TLS a client says by its first bytes which version it speaks.
    async fn hold_plain(self, mut stream: TcpStream, mut stopping: Stopping) {
        let mut first = FirstBytes::default();
        let is_http2 = tokio::select! {
            is_http2 = timeout(self.idle, first.are_http2(&mut stream)) => is_http2,
            () = stopping.wait() => return,
        };
        let is_http2 = match is_http2 {
            Ok(Ok(is_http2)) => is_http2,
            Ok(Err(error)) => return tracing::debug!("a connection broke: {error}"),
            Err(_) if first.read().is_empty() => {
                return tracing::debug!("a client said nothing for {:?}", self.idle);
            }
            // Who has begun hears what is missing, after another while.
            Err(_) => false,
        };
        let stream = StallLimit::new(ReplayedStream::new(first, stream), self.stall);
        match is_http2 {
            true => self.http2.serve(self.app, stream, stopping).await,
            false => self.http1.serve(self.app, stream, stopping).await,
        }
    }
}

#[cfg(test)]
mod tests;
