//! A client's stream under HTTP/1, shared by hyper, which reads and writes it, and by the request
//! that is being answered, which watches whether the client is still there.
//!
//! Two things that hyper does not do are done here. A client that closes its side after sending is
//! either waiting for its response or gone, and TCP tells the two apart only when something is
//! written: so a response that takes long is preceded by interim responses, which every HTTP/1.1
//! client skips, and which fail when the client has gone. And what hyper writes while no request
//! is being answered is its own refusal of a head that it could not read; it has no body, so it is
//! held back, and `http1` writes one that has.

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Says that the response is still to come.
const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Most bytes of later requests that are read while one is answered.
const AHEAD_BYTES_MAX: usize = 16 << 10;

pub struct ClientStream<S> {
    shared: Arc<Mutex<Shared<S>>>,
}

struct Shared<S> {
    stream: S,
    /// What was read while the client was watched, not yet seen by hyper.
    ahead: Vec<u8>,
    /// Whether hyper waits for bytes; it is woken when they come.
    is_awaited: bool,
    /// Whether the client has closed its side.
    is_half_closed: bool,
    exchange: Exchange,
    /// The rest of an interim response, to be written before anything else.
    interim: &'static [u8],
    /// Whether hyper wanted to refuse a head.
    is_refusing: bool,
}

/// Where a request and its response stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exchange {
    /// Between two requests.
    None,
    Open,
    /// The response is complete, and may not be written yet.
    Ended,
}

/// Ends the exchange when the response is dropped.
pub struct OpenExchange<S> {
    client: ClientStream<S>,
}

impl<S> Clone for ClientStream<S> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<S> ClientStream<S> {
    pub fn new(stream: S) -> Self {
        let shared = Shared {
            stream,
            ahead: Vec::new(),
            is_awaited: false,
            is_half_closed: false,
            exchange: Exchange::None,
            interim: &[],
            is_refusing: false,
        };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    /// From here on, what is written is a response.
    pub fn open_exchange(&self) -> OpenExchange<S> {
        let mut shared = self.shared();
        shared.exchange = Exchange::Open;
        shared.is_refusing = false;
        drop(shared);
        OpenExchange { client: self.clone() }
    }

    pub fn is_half_closed(&self) -> bool {
        self.shared().is_half_closed
    }

    fn shared(&self) -> MutexGuard<'_, Shared<S>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> ClientStream<S> {
    /// Waits until the client has closed its side; an error says that it has gone. What it sends
    /// meanwhile is kept for later.
    pub async fn half_closed(&self) -> io::Result<()> {
        poll_fn(|cx| self.shared().poll_half_closed(cx)).await
    }

    /// Writes an interim response: an error says that the client has gone.
    pub async fn send_interim(&self) -> io::Result<()> {
        self.shared().interim = INTERIM;
        poll_fn(|cx| {
            let mut shared = self.shared();
            ready!(shared.poll_interim(cx))?;
            Pin::new(&mut shared.stream).poll_flush(cx)
        })
        .await
    }
}

impl<S: AsyncRead + Unpin> Shared<S> {
    fn poll_half_closed(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Bytes that hyper waits for are not taken from under it.
        while !self.is_half_closed && !self.is_awaited && self.ahead.len() < AHEAD_BYTES_MAX {
            let mut bytes = [0; 1024];
            let mut buffer = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            self.is_half_closed = buffer.filled().is_empty();
            self.ahead.extend_from_slice(buffer.filled());
        }
        if self.is_half_closed { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.ahead.is_empty() {
            let taken = self.ahead.len().min(buffer.remaining());
            buffer.put_slice(&self.ahead[..taken]);
            self.ahead.drain(..taken);
            return Poll::Ready(Ok(()));
        }
        if self.is_half_closed {
            return Poll::Ready(Ok(()));
        }
        let filled = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.is_awaited = read.is_pending();
        self.is_half_closed =
            matches!(read, Poll::Ready(Ok(()))) && buffer.filled().len() == filled;
        read
    }
}

impl<S: AsyncWrite + Unpin> Shared<S> {
    /// Writes what is left of an interim response.
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.interim.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, self.interim))?;
            if written == 0 {
                return Poll::Ready(Err(ErrorKind::WriteZero.into()));
            }
            self.interim = &self.interim[written..];
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.exchange == Exchange::None {
            self.is_refusing = true;
            return Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum()));
        }
        ready!(self.poll_interim(cx))?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    /// Called when all that was to be written has been.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_interim(cx))?;
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        if self.exchange == Exchange::Ended {
            self.exchange = Exchange::None;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.is_refusing {
            true => Poll::Ready(Ok(())),
            false => Pin::new(&mut self.stream).poll_shutdown(cx),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.shared().poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.shared().poll_write(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.shared().poll_write(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.shared().stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared().poll_shutdown(cx)
    }
}

impl<S> Drop for OpenExchange<S> {
    fn drop(&mut self) {
        self.client.shared().exchange = Exchange::Ended;
    }
}
