//! One connection to a server, with one request at a time.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::wire_form::WireForm;
use super::wire_request::WireRequest;

pub enum InferConnection {
    Http(http1::SendRequest<Full<Bytes>>),
    Grpc(http2::SendRequest<Full<Bytes>>),
}

impl InferConnection {
    pub async fn open(server: SocketAddr, form: WireForm) -> Result<Self> {
        let unreachable = || format!("cannot reach the server at {server}");
        let socket = TcpStream::connect(server).await.with_context(unreachable)?;
        socket.set_nodelay(true)?;
        let io = TokioIo::new(socket);
        // Connections end with their senders; their errors show there.
        Ok(match form {
            WireForm::Json | WireForm::Binary => {
                let (sender, connection) = http1::handshake(io).await?;
                tokio::spawn(connection);
                InferConnection::Http(sender)
            }
            WireForm::Grpc => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
                tokio::spawn(connection);
                InferConnection::Grpc(sender)
            }
        })
    }

    /// Sends a request and waits for its answer; an error unless that is a success.
    pub async fn ask(&mut self, server: SocketAddr, request: &WireRequest) -> Result<()> {
        let body = Full::new(request.body.clone());
        match self {
            InferConnection::Http(sender) => {
                let mut head = Request::post(&request.path).header("host", server.to_string());
                head = match request.header_bytes {
                    None => head.header("content-type", "application/json"),
                    Some(bytes) => head
                        .header("content-type", "application/octet-stream")
                        .header("inference-header-content-length", bytes),
                };
                sender.ready().await?;
                check(sender.send_request(head.body(body)?).await?).await
            }
            InferConnection::Grpc(sender) => {
                let head = Request::post(format!("http://{server}{}", request.path))
                    .version(Version::HTTP_2)
                    .header("content-type", "application/grpc")
                    .header("te", "trailers");
                sender.ready().await?;
                check(sender.send_request(head.body(body)?).await?).await
            }
        }
    }
}

async fn check(response: Response<Incoming>) -> Result<()> {
    let (head, body) = response.into_parts();
    let body = body.collect().await?;
    // Of gRPC: behind the body, or in the head where there is none.
    let trailers = body.trailers();
    let status = trailers.and_then(|it| it.get("grpc-status")).or(head.headers.get("grpc-status"));
    if let Some(status) = status
        && status != "0"
    {
        let message = trailers.and_then(|it| it.get("grpc-message"));
        let message = message.or(head.headers.get("grpc-message"));
        bail!("gRPC status {status:?}: {message:?}");
    }
    if !head.status.is_success() {
        bail!("{}: {}", head.status, String::from_utf8_lossy(&body.to_bytes()));
    }
    Ok(())
}
