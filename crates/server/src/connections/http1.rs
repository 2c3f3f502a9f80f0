//! One connection under HTTP/1.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, Response, Version, header};
use futures_util::{StreamExt, stream};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink};
use tokio::time::{sleep, timeout};

use super::client_stream::{ClientStream, OpenExchange};
use super::held_body::HeldBody;
use super::refusal::{refusal, response};
use super::stopping::Stopping;
use crate::limits::{HEAD_BYTES_MAX, HEADERS_MAX, Limits};

/// After a client has closed its side, the first time and the longest between two interim
/// responses; each time is twice the last. One that has gone is noticed by the second of them.
const INTERIM_TIME_MIN: Duration = Duration::from_millis(100);
const INTERIM_TIME_MAX: Duration = Duration::from_secs(15);
/// The same between two comments in a stream of events, most of which never pause so long.
const COMMENT_TIME: Duration = Duration::from_secs(1);

/// A comment, which readers of server-sent events skip.
const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// What a client still sends after its response is read for so long, or the system would tell it
/// that the connection broke, and it might drop the response.
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
            .max_headers(HEADERS_MAX)
            .half_close(true);
        Self { http, idle: limits.idle_time }
    }

    pub async fn serve<S>(self, app: Router, stream: S, mut stopping: Stopping)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut client = ClientStream::new(stream);
        let watched = client.clone();
        let service = service_fn(move |request| respond(app.clone(), watched.clone(), request));
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

type ResponseBody<S> = HeldBody<OpenExchange<S>>;

/// The app's response; an error, which ends the connection, when the client has gone before it.
async fn respond<S>(
    app: Router,
    client: ClientStream<S>,
    request: Request<Incoming>,
) -> io::Result<Response<ResponseBody<S>>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let exchange = client.open_exchange();
    let version = request.version();
    let response: Result<Response<Body>, Infallible> = tokio::select! {
        biased;
        response = TowerToHyperService::new(app).call(request) => response,
        error = gone(&client, version) => return Err(error),
    };
    let Ok(response) = response;
    let is_events = is_event_stream(response.headers());
    Ok(response.map(|body| {
        let body = if is_events { with_signs_of_life(body, client) } else { body };
        HeldBody::new(body, exchange)
    }))
}

/// Waits until the client has gone. HTTP/1.0 has no interim responses: there a client that has
/// closed its side is believed to wait.
async fn gone<S: AsyncRead + AsyncWrite + Unpin>(
    client: &ClientStream<S>,
    version: Version,
) -> io::Error {
    if let Err(error) = client.half_closed().await {
        return error;
    }
    if version < Version::HTTP_11 {
        std::future::pending::<()>().await;
    }
    let mut pause = INTERIM_TIME_MIN;
    loop {
        sleep(pause).await;
        if let Err(error) = client.send_interim().await {
            return error;
        }
        pause = (pause * 2).min(INTERIM_TIME_MAX);
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream")
}

/// Events with comments between them where a client that has closed its side would otherwise hear
/// nothing, and could not be distinguished from one that has gone.
fn with_signs_of_life<S>(body: Body, client: ClientStream<S>) -> Body
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let events = body.into_data_stream();
    Body::from_stream(stream::unfold((events, client), |(mut events, client)| async move {
        let quiet = async {
            client.half_closed().await.map_err(axum::Error::new)?;
            sleep(COMMENT_TIME).await;
            Ok(COMMENT)
        };
        let next = tokio::select! {
            biased;
            event = events.next() => event?,
            comment = quiet => comment,
        };
        Some((next, (events, client)))
    }))
}
