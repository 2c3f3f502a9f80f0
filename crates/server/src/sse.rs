//! Answers as server-sent events, one event per piece of text.
//!
//! A complete stream ends with `[DONE]`. One that breaks off ends with an event that has the shape
//! of an error answer, and no `[DONE]`.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;

use crate::answers::{Answers, Piece, Usage};

/// How a route words its answers as they are made.
pub trait Frames: Send + 'static {
    /// Before the first piece.
    fn open(&mut self) -> Vec<String>;
    fn piece(&mut self, piece: Piece) -> Vec<String>;
    /// After the last piece, before `[DONE]`.
    fn close(&mut self, usage: Usage) -> Vec<String>;
}

pub fn respond(answers: Answers, mut frames: impl Frames) -> Response {
    let ready = frames.open().into();
    let telling = Telling { answers, frames, ready, ended: false };
    let events = stream::unfold(telling, |mut telling| async move {
        let data = telling.next().await?;
        Some((Ok::<_, Infallible>(Event::default().data(data)), telling))
    });
    // Proxies that buffer would turn a stream into one late answer.
    let unbuffered = [("x-accel-buffering", "no")];
    (unbuffered, Sse::new(events).keep_alive(KeepAlive::default())).into_response()
}

pub fn frame(data: &impl Serialize) -> String {
    serde_json::to_string(data).expect("answers have string keys only")
}

struct Telling<F> {
    answers: Answers,
    frames: F,
    ready: VecDeque<String>,
    ended: bool,
}

impl<F: Frames> Telling<F> {
    async fn next(&mut self) -> Option<String> {
        while self.ready.is_empty() && !self.ended {
            match self.answers.next().await {
                Some(Ok(piece)) => self.ready.extend(self.frames.piece(piece)),
                Some(Err(error)) => {
                    self.ready.push_back(error.to_json());
                    self.ended = true;
                }
                None => {
                    self.ready.extend(self.frames.close(self.answers.usage()));
                    self.ready.push_back("[DONE]".to_owned());
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
    use crate::answers::tests::{Stage, piece};
    use crate::config::ServerConfig;

    /// Says each piece, and the usage at the end.
    struct Plain;

    impl Frames for Plain {
        fn open(&mut self) -> Vec<String> {
            vec!["open".to_owned()]
        }

        fn piece(&mut self, piece: Piece) -> Vec<String> {
            vec![piece.text]
        }

        fn close(&mut self, usage: Usage) -> Vec<String> {
            vec![format!("{} new", usage.new_tokens)]
        }
    }

    async fn told(pieces: Vec<Piece>) -> String {
        let stage = Stage::new(ServerConfig::default());
        let response = respond(stage.answers(1, pieces), Plain);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let body = response.into_body().collect().await.expect("a body in memory").to_bytes();
        String::from_utf8(body.to_vec()).expect("text")
    }

    #[tokio::test]
    async fn a_complete_stream_ends_with_done() {
        let pieces = vec![piece(0, "a", None), piece(0, "b", Some(TextFinish::Length))];
        let want = "data: open\n\ndata: a\n\ndata: b\n\ndata: 2 new\n\ndata: [DONE]\n\n";
        assert_eq!(told(pieces).await, want);
    }

    #[tokio::test]
    async fn a_broken_stream_ends_with_an_error() {
        let told = told(vec![piece(0, "a", None)]).await;
        let events: Vec<_> = told.split_terminator("\n\n").collect();
        assert_eq!(events[..2], ["data: open", "data: a"]);
        assert!(events[2].starts_with(r#"data: {"error":{"message":"the engine"#), "{told}");
        assert_eq!(events.len(), 3);
    }
}
