//! The client's side of one streamed answer: posts JSON, reads server-sent events.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Dropping it closes the connection, as a client that leaves does.
pub struct EventStream {
    body: Incoming,
    events: EventReader,
}

impl EventStream {
    /// Opens a connection of its own and sends the request. An answer that is no success is an
    /// error with its text.
    pub async fn post(server: SocketAddr, path: &str, json: String) -> Result<Self> {
        let socket = TcpStream::connect(server).await.context("cannot reach the server")?;
        socket.set_nodelay(true)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
        // Ends with the answer, or when the answer is dropped; its errors show there.
        tokio::spawn(connection);
        let request = Request::post(path)
            .header("host", server.to_string())
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(json)))?;
        let (head, body) = sender.send_request(request).await?.into_parts();
        if !head.status.is_success() {
            let text = body.collect().await?.to_bytes();
            bail!("{}: {}", head.status, String::from_utf8_lossy(&text));
        }
        Ok(EventStream { body, events: EventReader::default() })
    }

    /// The data of the next event, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(data) = self.events.next() {
                return Ok(Some(data));
            }
            match self.body.frame().await {
                Some(frame) => {
                    if let Ok(bytes) = frame?.into_data() {
                        self.events.push(&bytes);
                    }
                }
                None => return Ok(None),
            }
        }
    }
}

/// Cuts bytes as they come into events.
#[derive(Default)]
struct EventReader {
    bytes: Vec<u8>,
    /// How many of them have been given.
    read: usize,
}

impl EventReader {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.read);
        self.read = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The data of the next whole event; comments, which keep a line open, have none.
    fn next(&mut self) -> Option<String> {
        loop {
            let rest = &self.bytes[self.read..];
            let end = rest.windows(2).position(|pair| pair == b"\n\n")?;
            self.read += end + 2;
            if let Some(data) = rest[..end].strip_prefix(b"data: ") {
                return Some(String::from_utf8_lossy(data).into_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_may_come_in_any_pieces() {
        let text = b"data: a\n\n:\n\ndata: \xc3\xa9\n\ndata: [DONE]\n\ndata: cut";
        for piece in 1..text.len() {
            let mut reader = EventReader::default();
            let mut events = Vec::new();
            for bytes in text.chunks(piece) {
                reader.push(bytes);
                events.extend(std::iter::from_fn(|| reader.next()));
            }
            assert_eq!(events, ["a", "é", "[DONE]"], "in pieces of {piece}");
        }
    }
}
