//! Outputs as they are decoded: server-sent events, or lines of JSON.
//!
//! Each API words its own beginning and end. A stream that breaks off ends with an event that says
//! why, and without the API's proper end.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, stream};
use serde::Serialize;

use crate::api_error::{ApiError, ApiResult};
use crate::language::Usage;

/// Where deltas come from. After an error nothing more comes.
pub trait Source: Send + 'static {
    type Delta: Send;
    /// The next delta, or `None` when all has come. Nothing is lost when the future is dropped.
    fn next(&mut self) -> impl Future<Output = Option<ApiResult<Self::Delta>>> + Send;
    /// Tokens so far.
    fn usage(&self) -> Usage;
}

/// How an API words its outputs as they are decoded.
pub trait Frames<P>: Send + 'static {
    /// Before the first delta.
    fn open(&mut self) -> Vec<Frame>;
    /// `usage`: with this delta.
    fn delta(&mut self, delta: P, usage: Usage) -> Vec<Frame>;
    /// After the last delta.
    fn close(&mut self, usage: Usage) -> Vec<Frame>;
    /// Instead of the rest.
    fn error(&mut self, error: &ApiError) -> Frame {
        Frame::from(error.to_json())
    }
}

/// One event, or one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The event's name, where the API names its events.
    pub event: Option<&'static str>,
    pub data: String,
}

impl Frame {
    /// What ends a complete stream in OpenAI's first APIs.
    pub fn done() -> Self {
        Self::from("[DONE]".to_owned())
    }

    pub fn json(data: &impl Serialize) -> Self {
        Self::from(json(data))
    }

    pub fn named(event: &'static str, data: &impl Serialize) -> Self {
        Self { event: Some(event), data: json(data) }
    }
}

impl From<String> for Frame {
    fn from(data: String) -> Self {
        Self { event: None, data }
    }
}

fn json(data: &impl Serialize) -> String {
    serde_json::to_string(data).expect("outputs have string keys only")
}

/// Proxies that buffer would turn a stream into one late response.
const UNBUFFERED: (&str, &str) = ("x-accel-buffering", "no");

/// Server-sent events.
pub fn respond<S: Source>(source: S, frames: impl Frames<S::Delta>) -> Response {
    let events = frames_of(source, frames, |frame| {
        let event = match frame.event {
            Some(name) => Event::default().event(name),
            None => Event::default(),
        };
        Ok::<_, Infallible>(event.data(frame.data))
    });
    ([UNBUFFERED], Sse::new(events).keep_alive(KeepAlive::default())).into_response()
}

/// A line of JSON for each frame.
pub fn respond_lines<S: Source>(source: S, frames: impl Frames<S::Delta>) -> Response {
    let lines =
        frames_of(source, frames, |frame| Ok::<_, Infallible>(Bytes::from(frame.data + "\n")));
    let kind = (header::CONTENT_TYPE.as_str(), "application/x-ndjson");
    ([UNBUFFERED, kind], Body::from_stream(lines)).into_response()
}

fn frames_of<S: Source, T>(
    source: S,
    mut frames: impl Frames<S::Delta>,
    encode: impl Fn(Frame) -> T + Send + 'static,
) -> impl Stream<Item = T> + Send + 'static
where
    T: Send + 'static,
{
    let ready = frames.open().into();
    let framed = Framed { source, frames, ready, ended: false };
    stream::unfold((framed, encode), |(mut framed, encode)| async move {
        let frame = framed.next().await?;
        Some((encode(frame), (framed, encode)))
    })
}

struct Framed<S, F> {
    source: S,
    frames: F,
    ready: VecDeque<Frame>,
    ended: bool,
}

impl<S: Source, F: Frames<S::Delta>> Framed<S, F> {
    async fn next(&mut self) -> Option<Frame> {
        while self.ready.is_empty() && !self.ended {
            match self.source.next().await {
                Some(Ok(delta)) => {
                    let usage = self.source.usage();
                    self.ready.extend(self.frames.delta(delta, usage));
                }
                Some(Err(error)) => {
                    self.ready.push_back(self.frames.error(&error));
                    self.ended = true;
                }
                None => {
                    self.ready.extend(self.frames.close(self.source.usage()));
                    self.ended = true;
                }
            }
        }
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use terrace_engine::text::TextFinish;

    use super::*;
    use crate::language::OutputDelta;
    use crate::language::request_outputs::tests::{Stage, delta};
    use crate::server_config::ServerConfig;

    /// Says each delta, and the usage at the end.
    struct Plain;

    impl Frames<OutputDelta> for Plain {
        fn open(&mut self) -> Vec<Frame> {
            vec![Frame { event: Some("first"), data: "open".to_owned() }]
        }

        fn delta(&mut self, delta: OutputDelta, _usage: Usage) -> Vec<Frame> {
            vec![delta.text.into()]
        }

        fn close(&mut self, usage: Usage) -> Vec<Frame> {
            vec![format!("{} new", usage.new_tokens).into(), Frame::done()]
        }
    }

    async fn streamed(deltas: Vec<OutputDelta>) -> String {
        let stage = Stage::new(ServerConfig::default());
        let response = respond(stage.outputs(1, deltas), Plain);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        text_of(response).await
    }

    async fn text_of(response: Response) -> String {
        let body = response.into_body().collect().await.expect("a body in memory").to_bytes();
        String::from_utf8(body.to_vec()).expect("text")
    }

    #[tokio::test]
    async fn a_complete_stream_ends_with_done() {
        let deltas = vec![delta(0, "a", None), delta(0, "b", Some(TextFinish::Length))];
        let want =
            "event: first\ndata: open\n\ndata: a\n\ndata: b\n\ndata: 2 new\n\ndata: [DONE]\n\n";
        assert_eq!(streamed(deltas).await, want);
    }

    #[tokio::test]
    async fn a_broken_stream_ends_with_an_error() {
        let body = streamed(vec![delta(0, "a", None)]).await;
        let events: Vec<_> = body.split_terminator("\n\n").collect();
        assert_eq!(events[..2], ["event: first\ndata: open", "data: a"]);
        assert!(events[2].starts_with(r#"data: {"error":{"message":"the engine"#), "{body}");
        assert_eq!(events.len(), 3);
    }

    #[tokio::test]
    async fn lines_are_frames_without_names() {
        let stage = Stage::new(ServerConfig::default());
        let deltas = vec![delta(0, "a", Some(TextFinish::Length))];
        let response = respond_lines(stage.outputs(1, deltas), Plain);
        assert_eq!(response.headers()["content-type"], "application/x-ndjson");
        assert_eq!(text_of(response).await, "open\na\n1 new\n[DONE]\n");
    }
}
