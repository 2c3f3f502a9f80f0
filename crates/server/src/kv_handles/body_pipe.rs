//! Bodies for threads that block: a request's to be read from, a response's to be written to.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use axum::body::{Body, BodyDataStream, Bytes};
use futures_util::{StreamExt, stream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Of a response, that travel together.
const CHUNK_BYTES: usize = 256 << 10;
/// Chunks that wait for the client.
const CHUNKS: usize = 4;
/// Enough for some gigabytes from the same machine.
const DRAIN: Duration = Duration::from_secs(5);

/// Not for an async thread: reading blocks.
pub struct BodyReader {
    runtime: Handle,
    body: BodyDataStream,
    chunk: Bytes,
    /// How long the client may send nothing.
    idle_time: Duration,
}

impl BodyReader {
    /// Called in a runtime, which brings the body while a thread reads it.
    pub fn new(body: Body, idle_time: Duration) -> Self {
        let (runtime, body) = (Handle::current(), body.into_data_stream());
        Self { runtime, body, chunk: Bytes::new(), idle_time }
    }

    /// Reads and drops what is left, for a while: many clients look for a response only when they
    /// have sent all, and do not see it on a connection that was closed before.
    pub fn drain(&mut self) {
        self.idle_time = DRAIN;
        let begun = Instant::now();
        while begun.elapsed() < DRAIN && matches!(self.next(), Ok(Some(_))) {}
    }

    fn next(&mut self) -> io::Result<Option<Bytes>> {
        let Self { runtime, body, idle_time, .. } = self;
        let idle_time = *idle_time;
        match runtime.block_on(async { timeout(idle_time, body.next()).await }) {
            Ok(None) => Ok(None),
            Ok(Some(Ok(chunk))) => Ok(Some(chunk)),
            Ok(Some(Err(error))) => Err(io::Error::other(error)),
            Err(_) => {
                let message = format!("nothing came for {} s", idle_time.as_secs_f32());
                Err(io::Error::new(ErrorKind::TimedOut, message))
            }
        }
    }
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.next()? {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(0),
            }
        }
        let bytes = buffer.len().min(self.chunk.len());
        buffer[..bytes].copy_from_slice(&self.chunk.split_to(bytes));
        Ok(bytes)
    }
}

/// Not for an async thread: writing blocks while the client is slower. It ends well only by
/// [`finish`](Self::finish): a body that is dropped before is cut off, and the client sees that.
pub struct BodyWriter {
    chunks: mpsc::Sender<io::Result<Bytes>>,
    chunk: Vec<u8>,
}

/// What a [`BodyWriter`] writes.
pub struct WrittenBody {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
}

pub fn body_pipe() -> (BodyWriter, WrittenBody) {
    let (sender, receiver) = mpsc::channel(CHUNKS);
    let writer = BodyWriter { chunks: sender, chunk: Vec::with_capacity(CHUNK_BYTES) };
    (writer, WrittenBody { chunks: receiver })
}

impl BodyWriter {
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()
    }

    /// Ends the body in a way that the client does not take for its end.
    pub fn fail(self, message: String) {
        // A client that has left need not know.
        let _ = self.chunks.blocking_send(Err(io::Error::other(message)));
    }
}

impl Write for BodyWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK_BYTES - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..taken]);
        if self.chunk.len() == CHUNK_BYTES {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK_BYTES));
        let sent = self.chunks.blocking_send(Ok(chunk.into()));
        sent.map_err(|_| io::Error::new(ErrorKind::BrokenPipe, "the client has left"))
    }
}

impl WrittenBody {
    /// Waits for the first bytes; `None` where there are none, because the writer has failed before
    /// or has nothing to write.
    pub async fn begun(mut self) -> Option<Body> {
        let first = self.chunks.recv().await?.ok()?;
        let next =
            |mut chunks: mpsc::Receiver<_>| async move { Some((chunks.recv().await?, chunks)) };
        let rest = stream::unfold(self.chunks, next);
        Some(Body::from_stream(stream::iter([Ok(first)]).chain(rest)))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_body_is_read_by_a_thread() {
        let chunks = [&b"ab"[..], b"", b"cde"].map(|chunk| Ok::<_, io::Error>(Bytes::from(chunk)));
        let mut reader =
            BodyReader::new(Body::from_stream(stream::iter(chunks)), Duration::from_secs(60));
        let mut text = String::new();
        let read = tokio::task::spawn_blocking(move || {
            reader.read_to_string(&mut text).map(|bytes| (bytes, text))
        });
        assert_eq!(read.await.expect("no panic").expect("a body"), (5, "abcde".to_owned()));
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let body = Body::from_stream(stream::pending::<io::Result<Bytes>>());
        let mut reader = BodyReader::new(body, Duration::from_millis(20));
        let read = tokio::task::spawn_blocking(move || reader.read(&mut [0]));
        assert_eq!(read.await.expect("no panic").unwrap_err().kind(), ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_body_is_written_by_a_thread_to_its_end_or_not_at_all() {
        let long = vec![7; 3 * CHUNK_BYTES + 5];
        for fails in [false, true] {
            let (mut writer, written) = body_pipe();
            let bytes = long.clone();
            let writing = tokio::task::spawn_blocking(move || {
                writer.write_all(&bytes).expect("it is read");
                match fails {
                    true => writer.fail("no more".to_owned()),
                    false => writer.finish().expect("it is read"),
                }
            });
            let body = written.begun().await.expect("some bytes").collect().await;
            writing.await.expect("no panic");
            match fails {
                true => assert!(body.is_err()),
                false => assert!(body.expect("whole").to_bytes() == long),
            }
        }
    }

    #[tokio::test]
    async fn who_leaves_ends_the_writing() {
        let (mut writer, written) = body_pipe();
        drop(written);
        let write = move || writer.write_all(&vec![0; 8 * CHUNK_BYTES]);
        let write = tokio::task::spawn_blocking(write).await.expect("no panic");
        assert_eq!(write.unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
