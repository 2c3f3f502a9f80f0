//! A client's stream under HTTP/1, shared by hyper, which reads and writes it, and by the request
//! that is being answered.
//!
//! What hyper writes while no request is being answered is its own refusal of a head that it could
//! not read; it has no body, so it is held back, and `http1` writes one that has.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub struct ClientStream<S> {
    shared: Arc<Mutex<Shared<S>>>,
}

struct Shared<S> {
    stream: S,
    /// Whether the client has closed its side.
    is_half_closed: bool,
    exchange: Exchange,
    /// Whether hyper wanted to refuse a head.
    is_refusing: bool,
}

/// Where a request and its answer stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exchange {
    /// Between two requests.
    None,
    Open,
    /// The answer is complete, and may not be written yet.
    Ended,
}

/// Ends the exchange when the answer is dropped.
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
        let shared =
            Shared { stream, is_half_closed: false, exchange: Exchange::None, is_refusing: false };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    /// From here on, what is written is an answer.
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

impl<S: AsyncRead + Unpin> Shared<S> {
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.is_half_closed =
            matches!(read, Poll::Ready(Ok(()))) && buffer.filled().len() == filled;
        read
    }
}

impl<S: AsyncWrite + Unpin> Shared<S> {
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.exchange == Exchange::None {
            self.is_refusing = true;
            return Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    /// Called when all that was to be written has been.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
