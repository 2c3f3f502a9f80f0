//! One connection under HTTP/2, which TLS has agreed on, or which the client began with.
//!
//! hyper and h2 answer what they cannot read themselves: a reset stream or a GOAWAY, without JSON.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Request, Response};
use futures_util::{FutureExt, StreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::drained_body::DrainedBody;
use super::held_body::HeldBody;
use super::stopping::Stopping;
use crate::limits::{HEAD_BYTES_MAX, Limits};

/// Requests of one client at a time; more wait at the client.
const STREAMS_MAX: u32 = 256;

/// Streams that a client may reset before they are served, and those reset for its mistakes, before
/// the connection ends: opening and resetting costs a client less than the server.
const RESET_STREAMS_MAX: usize = 64;

/// Between two pings; a client that answers none for the stall time is gone.
const PING_INTERVAL: Duration = Duration::from_secs(20);

#[derive(Clone)]
pub struct Http2 {
    http: http2::Builder<TokioExecutor>,
    idle: Duration,
    stall: Duration,
}

impl Http2 {
    pub fn new(limits: &Limits) -> Self {
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).expect("a few KiB"))
            .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
            .max_local_error_reset_streams(RESET_STREAMS_MAX)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(limits.stall_time);
        Self { http, idle: limits.idle_time, stall: limits.stall_time }
    }

    pub async fn serve<S>(self, app: Router, stream: S, mut stopping: Stopping)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let open = Arc::new(watch::Sender::new(0));
        let (counted, stall) = (Arc::clone(&open), self.stall);
        let service = service_fn(move |request| {
            respond(app.clone(), OpenExchange::new(&counted), stall, request)
        });
        let mut connection = pin!(self.http.serve_connection(TokioIo::new(stream), service));
        let ended = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            () = stopping.wait() => None,
            () = quiet_for(self.idle, &open) => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection => ended,
                    // Who does not say good-bye is not waited for.
                    () = quiet_for(self.stall, &open) => Ok(()),
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!("a connection broke: {error}");
        }
    }
}

/// Waits until for so long no request has been open.
async fn quiet_for(time: Duration, open: &watch::Sender<usize>) {
    let mut count = open.subscribe();
    loop {
        let limit = match *count.borrow_and_update() {
            0 => time,
            _ => Duration::MAX,
        };
        if timeout(limit, count.changed()).await.is_err() {
            return;
        }
    }
}

/// Counts a request until its response has been handed over or dropped.
struct OpenExchange {
    open: Arc<watch::Sender<usize>>,
}

impl OpenExchange {
    fn new(open: &Arc<watch::Sender<usize>>) -> Self {
        open.send_modify(|count| *count += 1);
        Self { open: Arc::clone(open) }
    }
}

impl Drop for OpenExchange {
    fn drop(&mut self) {
        self.open.send_modify(|count| *count -= 1);
    }
}

async fn respond(
    app: Router,
    exchange: OpenExchange,
    stall: Duration,
    request: Request<Incoming>,
) -> Result<Response<HeldBody<OpenExchange>>, Infallible> {
    let request = request.map(DrainedBody::new);
    let response = TowerToHyperService::new(app).call(request).await?;
    Ok(response.map(|body: Body| {
        // A response of known length is handed over at once.
        let is_stream = body.size_hint().exact().is_none();
        let body = if is_stream { limited(body, stall) } else { body };
        HeldBody::new(body, exchange)
    }))
}

/// Bytes of a response that may be handed over before the client takes any.
const READY_BYTES_MAX: usize = 64 << 10;

/// A stream under its limit; one that is short and all there, such as a response of gRPC, needs
/// none.
fn limited(mut body: Body, stall: Duration) -> Body {
    let (mut ready, mut bytes) = (Vec::new(), 0);
    while bytes < READY_BYTES_MAX {
        match body.frame().now_or_never() {
            Some(Some(frame)) => {
                bytes += frame.as_ref().ok().and_then(Frame::data_ref).map_or(0, Bytes::len);
                ready.push(frame);
            }
            Some(None) => return Body::new(StreamBody::new(stream::iter(ready))),
            None => break,
        }
    }
    let rest = stream::unfold(body, |mut body| async { Some((body.frame().await?, body)) });
    let whole = Body::new(StreamBody::new(stream::iter(ready).chain(rest)));
    stall_limited(whole, stall)
}

/// The body until the client takes nothing of it for so long, while other streams of the connection
/// may go on; then it is dropped, which cancels its request.
fn stall_limited(body: Body, stall: Duration) -> Body {
    let (taker, taken) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut body = body;
        let mut has_ended = false;
        while !has_ended {
            let next: Option<Result<Frame<Bytes>, axum::Error>> = tokio::select! {
                next = body.frame() => next,
                () = taker.closed() => return,
            };
            has_ended = next.is_none();
            if timeout(stall, taker.send(next)).await.is_err() {
                tracing::debug!("a client took nothing of a stream for {stall:?}");
                return;
            }
        }
    });
    // With the trailers, where gRPC has its status.
    Body::new(StreamBody::new(stream::unfold(taken, |mut taken| async move {
        let next = match taken.recv().await {
            Some(next) => next?,
            None => Err(axum::Error::new("the client took nothing for too long")),
        };
        Some((next, taken))
    })))
}
