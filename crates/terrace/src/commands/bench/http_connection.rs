//! One HTTP/1.1 request over a connection of its own.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::http::request;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// The response's body as it comes. A response that is no success is an error with its text. The
/// connection closes when the body is dropped.
pub async fn send(server: SocketAddr, request: request::Builder, body: String) -> Result<Incoming> {
    let unreachable = || format!("cannot reach the server at {server}");
    let socket = TcpStream::connect(server).await.with_context(unreachable)?;
    socket.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
    // Ends with the response, or when the response is dropped; its errors show there.
    tokio::spawn(connection);
    let request = request
        .header("host", server.to_string())
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))?;
    let (head, body) = sender.send_request(request).await?.into_parts();
    if !head.status.is_success() {
        let text = body.collect().await?.to_bytes();
        bail!("{}: {}", head.status, String::from_utf8_lossy(&text));
    }
    Ok(body)
}

pub async fn get(server: SocketAddr, path: &str) -> Result<Bytes> {
    let body = send(server, Request::get(path), String::new()).await?;
    Ok(body.collect().await?.to_bytes())
}
