//! One connection under HTTP/1.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink};
use tokio::time::timeout;

use super::Stopping;
use super::client_stream::{ClientStream, OpenExchange};
use super::held_body::HeldBody;
use super::refusal::{refusal, response};
use crate::limits::{HEAD_BYTES_MAX, HEADERS_MAX, Limits};

/// What a client still sends after its answer is read for so long, or the system would tell it
/// that the connection broke, and it might drop the answer.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: u64 = 64 << 20;

#[derive(Clone)]
pub struct Http1 {
    http: http1::Builder,
    idle: Duration,
}

impl Http1 {
    pub fn new(limits: &Limits) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(limits.idle_time)
            .max_header_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX);
        Self { http, idle: limits.idle_time }
    }

    pub async fn serve<S>(self, app: Router, stream: S, mut stopping: Stopping)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut client = ClientStream::new(stream);
        let watched = client.clone();
        let service = service_fn(move |request| answer(app.clone(), watched.clone(), request));
        let mut connection = self.http.serve_connection(TokioIo::new(client.clone()), service);
        let ended = tokio::select! {
            ended = &mut connection => Some(ended),
            () = stopping.wait() => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                Pin::new(&mut connection).graceful_shutdown();
                (&mut connection).await
            }
        };
        let unread = connection.into_parts().read_buf;
        match ended {
            Ok(()) => {}
            Err(error) => match refusal(&error, &unread, self.idle) {
                Some(error) => refuse(&mut client, &response(&error)).await,
                None => return tracing::debug!("a connection broke: {error}"),
            },
        }
        if !client.is_half_closed() && !stopping.has_come() {
            let (mut rest, mut nowhere) = (client.take(LINGER_BYTES_MAX), sink());
            // Whatever comes of it, the connection is over.
            let _ = timeout(LINGER, copy(&mut rest, &mut nowhere)).await;
        }
    }
}

/// Writes the refusal and closes this side. A client that does not take it is left alone.
async fn refuse<S: AsyncRead + AsyncWrite + Unpin>(client: &mut ClientStream<S>, response: &str) {
    let _exchange = client.open_exchange();
    let written = async {
        client.write_all(response.as_bytes()).await?;
        client.shutdown().await
    };
    if let Err(error) = written.await {
        tracing::debug!("a client did not take its refusal: {error}");
    }
}

type AnswerBody<S> = HeldBody<OpenExchange<S>>;

async fn answer<S>(
    app: Router,
    client: ClientStream<S>,
    request: Request<Incoming>,
) -> Result<Response<AnswerBody<S>>, Infallible> {
    let exchange = client.open_exchange();
    let response = TowerToHyperService::new(app).call(request).await?;
    Ok(response.map(|body: Body| HeldBody::new(body, exchange)))
}
