//! A request's body that must have come within a time.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::Status;

use super::status::{refusal, status};
use crate::api_error::ApiError;

pub struct TimedBody {
    body: Body,
    limit: Duration,
    ends: Pin<Box<Sleep>>,
}

impl TimedBody {
    pub fn new(body: Body, limit: Duration) -> Self {
        Self { body, limit, ends: Box::pin(sleep(limit)) }
    }
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            let frame = frame.map(|frame| {
                frame.map_err(|error| {
                    let message = format!("the request could not be read to its end: {error}");
                    status(tonic::Code::Cancelled, &message)
                })
            });
            return Poll::Ready(frame);
        }
        match self.ends.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                let late = ApiError::late_body(self.limit);
                Poll::Ready(Some(Err(refusal(&late))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
