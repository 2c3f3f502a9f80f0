//! Connections under HTTP/2, without the TLS around them.

use axum::http::Request;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{DuplexStream, duplex};
use tokio::task::JoinHandle;

use super::*;

struct Connection {
    client: DuplexStream,
    server: JoinHandle<()>,
    stop: watch::Sender<bool>,
    /// When the response to `/never`, which does not come, or `/endless`, which does not end, is
    /// dropped.
    dropped: oneshot::Receiver<()>,
}

/// Serves also `/ping`, and `/slow`, which takes a while.
fn connect(limits: &Limits) -> Connection {
    let (dropping, dropped) = oneshot::channel();
    let guard = Arc::new(Mutex::new(Some(DropReport(Some(dropping)))));
    let held = Arc::clone(&guard);
    let never = || async move {
        let _guard = held.lock().expect("no panics").take();
        std::future::pending::<()>().await;
    };
    let endless = move || async move { endless_body(guard.lock().expect("no panics").take()) };
    let slow = || async {
        sleep(SHORT * 4).await;
        "slow"
    };
    let app = Router::new()
        .route("/ping", get(|| async { "pong" }))
        .route("/slow", get(slow))
        .route("/never", get(never))
        .route("/endless", get(endless));
    let stop = watch::Sender::new(false);
    let stopping = Stopping::new(stop.subscribe());
    let (client, server) = duplex(1 << 16);
    let server = tokio::spawn(Http2::new(limits).serve(app, server, stopping));
    Connection { client, server, stop, dropped }
}

type Client = SendRequest<Body>;

async fn agree(client: DuplexStream) -> Client {
    let (client, connection) =
        handshake(TokioExecutor::new(), TokioIo::new(client)).await.expect("both speak HTTP/2");
    // It ends with an error where the server ends it.
    tokio::spawn(connection);
    client
}

fn request(path: &str) -> Request<Body> {
    let uri = format!("http://localhost{path}");
    Request::get(uri).body(Body::empty()).expect("a request")
}

async fn text(client: &mut Client, path: &str) -> Bytes {
    let response = client.send_request(request(path)).await.expect("a response");
    assert_eq!(response.status(), 200);
    response.into_body().collect().await.expect("a whole response").to_bytes()
}

#[tokio::test]
async fn a_request_that_is_left_is_cancelled() {
    let Connection { client, dropped, stop: _stop, .. } = connect(&limits(LONG, LONG));
    let mut client = agree(client).await;
    let mut other = client.clone();
    tokio::select! {
        _ = other.send_request(request("/never")) => unreachable!("it is never answered"),
        got = text(&mut client, "/slow") => assert_eq!(got, "slow"),
    }
    dropped.await.expect("the request is dropped");
    assert_eq!(text(&mut client, "/ping").await, "pong");
}

#[tokio::test]
async fn a_stream_that_is_not_taken_is_cancelled_and_others_go_on() {
    let Connection { client, dropped, stop: _stop, .. } = connect(&limits(LONG, SHORT));
    let mut client = agree(client).await;
    let untaken = client.send_request(request("/endless")).await.expect("a response");
    dropped.await.expect("the stream is dropped");
    assert_eq!(text(&mut client, "/ping").await, "pong");
    drop(untaken);
}

#[tokio::test]
async fn connections_without_requests_are_closed() {
    let Connection { client, server, stop: _stop, .. } = connect(&limits(SHORT, LONG));
    let mut client = agree(client).await;
    assert_eq!(text(&mut client, "/slow").await, "slow");
    server.await.expect("it ends by itself");
    assert!(client.send_request(request("/ping")).await.is_err());
}

#[tokio::test]
async fn a_client_that_says_nothing_is_cut_off() {
    for begun in ["", "PRI * HTTP/2.0\r\n"] {
        let connection = connect(&limits(SHORT, SHORT));
        let mut client = connection.client;
        client.write_all(begun.as_bytes()).await.expect("it is open");
        connection.server.await.expect("it ends by itself");
    }
}

#[tokio::test]
async fn stopping_waits_for_running_requests() {
    let Connection { client, server, stop, .. } = connect(&limits(LONG, LONG));
    let mut client = agree(client).await;
    let mut running = std::pin::pin!(client.send_request(request("/slow")));
    tokio::select! {
        _ = running.as_mut() => panic!("it takes a while"),
        () = sleep(SHORT) => {}
    }
    stop.send_replace(true);
    let response = running.await.expect("a response");
    let whole = response.into_body().collect().await.expect("a whole response").to_bytes();
    assert_eq!(whole, "slow");
    server.await.expect("it ends by itself");
    assert!(client.send_request(request("/ping")).await.is_err());
}

/// Trailers are behind the body, where gRPC has its status.
fn with_trailers() -> axum::response::Response {
    let data = Frame::data(Bytes::from_static(b"data"));
    let trailers = Frame::trailers(
        [("t".parse().expect("a name"), "1".parse().expect("a value"))].into_iter().collect(),
    );
    let frames = stream::iter([Ok::<_, Infallible>(data), Ok(trailers)]);
    axum::response::Response::new(Body::new(StreamBody::new(frames)))
}

#[tokio::test]
async fn a_plain_port_speaks_both_versions() {
    let app = Router::new()
        .route("/ping", get(|| async { "pong" }))
        .route("/trailers", get(|| async { with_trailers() }));
    let address = serve_app(app, limits(LONG, LONG)).await;
    ping_anew(address).await;
    let stream = TcpStream::connect(address).await.expect("it listens");
    let (mut client, connection) =
        handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("it speaks HTTP/2");
    tokio::spawn(connection);
    assert_eq!(text(&mut client, "/ping").await, "pong");
    let response = client.send_request(request("/trailers")).await.expect("a response");
    let whole = response.into_body().collect().await.expect("a whole response");
    assert_eq!(whole.trailers().and_then(|it| it.get("t")).expect("it came along"), "1");
    assert_eq!(whole.to_bytes(), "data");
    ping_anew(address).await;
}

#[tokio::test]
async fn half_a_preface_is_cut_off() {
    let app = Router::new().route("/ping", get(|| async { "pong" }));
    // Who has sent the whole preface gets a farewell, and the second time to take it.
    let address = serve_app(app, limits(SHORT, SHORT)).await;
    for begun in ["", "P", "PRI * HTTP/2.0\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(begun.as_bytes()).await.expect("it is open");
        // Returns because the server closes.
        stream.read_to_end(&mut Vec::new()).await.expect("a proper end");
    }
    ping_anew(address).await;
}
