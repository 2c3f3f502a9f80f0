//! The first bytes of a plain connection, which distinguish HTTP/1 from HTTP/2.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// What a client begins with that speaks HTTP/2 without having agreed on it before.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Default)]
pub struct FirstBytes {
    bytes: [u8; PREFACE.len()],
    length: usize,
}

impl FirstBytes {
    /// Reads until it is known whether the client speaks HTTP/2. What has been read stays here,
    /// also when the future is dropped.
    pub async fn are_http2<S: AsyncRead + Unpin>(&mut self, stream: &mut S) -> io::Result<bool> {
        while PREFACE.starts_with(self.read()) {
            if self.length == PREFACE.len() {
                return Ok(true);
            }
            match stream.read(&mut self.bytes[self.length..]).await? {
                0 => return Ok(false),
                more => self.length += more,
            }
        }
        Ok(false)
    }

    pub fn read(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn the_preface_may_come_in_any_parts() {
        for cut in 1..PREFACE.len() {
            let (mut client, mut server) = tokio::io::duplex(64);
            let mut first = FirstBytes::default();
            client.write_all(&PREFACE[..cut]).await.expect("there is room");
            let reading = first.are_http2(&mut server);
            let rest = async { client.write_all(&PREFACE[cut..]).await.expect("there is room") };
            let (is_http2, ()) = tokio::join!(reading, rest);
            assert!(is_http2.expect("it is open"), "{cut}");
            assert_eq!(first.read(), PREFACE);
        }
    }

    #[tokio::test]
    async fn other_bytes_are_not_waited_for() {
        for sent in ["G", "PO", "PRI * HTTP/1.1", "PRI * HTTP/2.0\r\n\r\nSM\r\n\rx"] {
            let (mut client, mut server) = tokio::io::duplex(64);
            let mut first = FirstBytes::default();
            client.write_all(sent.as_bytes()).await.expect("there is room");
            assert!(!first.are_http2(&mut server).await.expect("it is open"), "{sent}");
            assert_eq!(first.read(), &sent.as_bytes()[..sent.len().min(24)]);
        }
    }

    #[tokio::test]
    async fn the_end_is_no_preface() {
        let (mut client, mut server) = tokio::io::duplex(64);
        client.write_all(b"PRI").await.expect("there is room");
        drop(client);
        let mut first = FirstBytes::default();
        assert!(!first.are_http2(&mut server).await.expect("a proper end"));
        assert_eq!(first.read(), b"PRI");
    }
}
