//! The client's side of one streamed output: posts JSON, reads server-sent events.

use std::net::SocketAddr;

use anyhow::Result;
use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::Incoming;

use super::http_connection;

/// Dropping it closes the connection, as a client that leaves does.
pub struct EventStream {
    body: Incoming,
    events: EventReader,
}

impl EventStream {
    pub async fn post(server: SocketAddr, path: &str, json: String) -> Result<Self> {
        let body = http_connection::send(server, Request::post(path), json).await?;
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
    fn events_may_come_in_any_fragments() {
        let text = b"data: a\n\n:\n\ndata: \xc3\xa9\n\ndata: [DONE]\n\ndata: cut";
        for length in 1..text.len() {
            let mut reader = EventReader::default();
            let mut events = Vec::new();
            for bytes in text.chunks(length) {
                reader.push(bytes);
                events.extend(std::iter::from_fn(|| reader.next()));
            }
            assert_eq!(events, ["a", "é", "[DONE]"], "in fragments of {length}");
        }
    }
}
