//! Clients that behave badly, and the others beside them.

mod half_close;
mod http2;
mod refusals;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::routing::{get, post};
use futures_util::stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::sync::oneshot;

use super::*;

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(50);

/// Serves `/ping`, and `/endless`, whose response has no end; tells when that response is dropped.
async fn serve(limits: Limits) -> (SocketAddr, oneshot::Receiver<()>) {
    let (dropped, reported) = oneshot::channel();
    let guard = Arc::new(Mutex::new(Some(DropReport(Some(dropped)))));
    let endless = move || async move { endless_body(guard.lock().expect("no panics").take()) };
    let ping = get(|| async { "pong" });
    let app = Router::new().route("/ping", ping).route("/endless", post(endless));
    (serve_app(app, limits).await, reported)
}

async fn serve_app(app: Router, limits: Limits) -> SocketAddr {
    serve_over(None, app, limits).await
}

async fn serve_over(tls: Option<Tls>, app: Router, limits: Limits) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let connections = Connections::new(app, tls, &limits);
    tokio::spawn(async move { connections.accept(&listener).await });
    address
}

/// Holds the guard until it is dropped.
fn endless_body(guard: Option<DropReport>) -> Body {
    let chunk = Bytes::from_static(&[b'x'; 1 << 16]);
    Body::from_stream(stream::unfold(guard, move |guard| {
        let chunk = chunk.clone();
        async move { Some((Ok::<_, Infallible>(chunk), guard)) }
    }))
}

struct DropReport(Option<oneshot::Sender<()>>);

impl Drop for DropReport {
    fn drop(&mut self) {
        // The test may have ended.
        let _ = self.0.take().expect("reported once").send(());
    }
}

fn limits(idle_time: Duration, stall_time: Duration) -> Limits {
    Limits { idle_time, stall_time, ..Limits::default() }
}

async fn ping(stream: &mut TcpStream) {
    stream.write_all(b"GET /ping HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("it is open");
    let mut response = Vec::new();
    while !response.ends_with(b"pong") {
        assert_ne!(stream.read_buf(&mut response).await.expect("it is open"), 0, "closed");
    }
    assert!(response.starts_with(b"HTTP/1.1 200"));
}

async fn ping_anew(address: SocketAddr) {
    ping(&mut TcpStream::connect(address).await.expect("it listens")).await;
}

const ENDLESS: &[u8] = b"POST /endless HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";

#[tokio::test]
async fn idle_connections_keep_nobody_out_and_still_work() {
    let (address, _) = serve(limits(LONG, LONG)).await;
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(TcpStream::connect(address).await.expect("it listens"));
    }
    ping_anew(address).await;
    for stream in &mut idle {
        ping(stream).await;
        ping(stream).await;
    }
}

#[tokio::test]
async fn an_unfinished_request_is_cut_off() {
    let (address, _) = serve(limits(SHORT, LONG)).await;
    for begun in [b"".as_slice(), b"GET /pi"] {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(begun).await.expect("it is open");
        ping_anew(address).await;
        // Returns because the server closes.
        stream.read_to_end(&mut Vec::new()).await.expect("a proper end");
    }
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_cut_off() {
    let (address, dropped) = serve(limits(LONG, SHORT)).await;
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a size");
    let mut stream = socket.connect(address).await.expect("it listens");
    stream.write_all(ENDLESS).await.expect("it is open");
    ping_anew(address).await;
    dropped.await.expect("the response is dropped");
    ping_anew(address).await;
}

#[tokio::test]
async fn finishing_closes_idle_connections_and_waits_for_the_others() {
    let app = Router::new().route("/ping", get(|| async { "pong" }));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let connections = Connections::new(app, None, &limits(LONG, LONG));
    let mut stream = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("open");
    tokio::select! {
        () = connections.accept(&listener) => unreachable!("it accepts for ever"),
        () = ping(&mut stream) => {}
    }
    connections.finish().await;
    assert_eq!(stream.read(&mut [0; 1]).await.expect("a proper end"), 0);
}
