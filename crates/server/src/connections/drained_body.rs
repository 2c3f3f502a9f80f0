//! A request's body under HTTP/2 whose rest is read, and dropped, when nobody wants it.
//!
//! Some clients do not look for a response before they have sent all of their body, and wait for
//! ever where the server takes no more of it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use futures_util::StreamExt;
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::time::timeout;

const DRAIN: Duration = Duration::from_secs(5);
const DRAIN_BYTES_MAX: usize = 64 << 20;

pub struct DrainedBody {
    /// `None` only while it is dropped.
    body: Option<Incoming>,
}

impl DrainedBody {
    pub fn new(body: Incoming) -> Self {
        Self { body: Some(body) }
    }
}

impl HttpBody for DrainedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Incoming::size_hint).unwrap_or_default()
    }
}

impl Drop for DrainedBody {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) else { return };
        let drain = async {
            let mut data = Body::new(body).into_data_stream();
            let mut left = DRAIN_BYTES_MAX;
            while let Some(Ok(bytes)) = data.next().await {
                left = left.saturating_sub(bytes.len());
                if left == 0 {
                    return;
                }
            }
        };
        // Not where the runtime is shutting down.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // What comes of it does not matter.
            runtime.spawn(async { drop(timeout(DRAIN, drain).await) });
        }
    }
}
