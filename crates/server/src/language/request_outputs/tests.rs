//! What a client sees of an answer: pieces, ends, limits and failures.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use serde_json::Value;

use super::*;
use crate::config::ServerConfig;
use crate::limits::Limits;
use crate::services::Services;
use crate::shutdown::{Canceller, cancel_signal};

/// A service without models, and answers that are given instead of made.
pub struct Stage {
    pub state: AppState,
    pub canceller: Canceller,
}

impl Stage {
    pub fn new(config: ServerConfig) -> Self {
        let (canceller, cancel) = cancel_signal();
        Self { state: AppState::new(config, Services::default(), cancel), canceller }
    }

    /// One prompt of three tokens, `answers` answers to it, these pieces.
    pub fn answers(&self, answers: usize, pieces: Vec<Piece>) -> Answers {
        self.answers_from(answers, stream::iter(pieces).boxed(), Instant::now())
    }

    fn answers_from(
        &self,
        answers: usize,
        pieces: BoxStream<'static, Piece>,
        started: Instant,
    ) -> Answers {
        let request = Request::new(Body::empty());
        let mut log = RequestLog::begin(&request, Arc::clone(&self.state.metrics));
        log.started = started;
        let pieces = SelectAll::from_iter([pieces]);
        Answers::new(&self.state, Arc::new(log), vec![vec![1, 2, 3].into()], answers, pieces)
    }
}

/// A piece of one token.
pub fn piece(answer: usize, text: &str, finish: Option<TextFinish>) -> Piece {
    let tokens = vec![TokenInfo { id: 7, logprobs: None }];
    Piece { prompt: 0, answer, text: text.to_owned(), tokens, finish, ..Piece::default() }
}

async fn outcome(mut answers: Answers) -> (String, Usage) {
    let mut told = String::new();
    while let Some(piece) = answers.next().await {
        match piece {
            Ok(piece) => told += &piece.text,
            Err(error) => {
                let error: Value = serde_json::from_str(&error.to_json()).expect("JSON");
                told += &format!("<{}>", error["error"]["message"].as_str().expect("a message"));
            }
        }
    }
    (told, answers.usage())
}

#[tokio::test]
async fn tokens_are_counted_and_so_is_the_one_that_stopped() {
    let stage = Stage::new(ServerConfig::default());
    let pieces = vec![
        piece(0, "a", None),
        piece(1, "b", Some(TextFinish::Length)),
        piece(0, "c", Some(TextFinish::StopToken(2))),
    ];
    let (told, usage) = outcome(stage.answers(2, pieces)).await;
    assert_eq!(told, "abc");
    assert_eq!(usage, Usage { prompt_tokens: 3, new_tokens: 4, ..Usage::default() });
}

#[tokio::test]
async fn a_failed_step_ends_all() {
    let stage = Stage::new(ServerConfig::default());
    let pieces =
        vec![piece(0, "a", None), piece(0, "", Some(TextFinish::Failed)), piece(0, "b", None)];
    let (told, _) = outcome(stage.answers(1, pieces)).await;
    assert_eq!(told, "a<the step failed; the server's log says why>");
}

#[tokio::test]
async fn an_answer_without_an_end_is_an_error() {
    let stage = Stage::new(ServerConfig::default());
    let (told, _) = outcome(stage.answers(1, vec![piece(0, "a", None)])).await;
    assert_eq!(told, "a<the engine has stopped>");
}

#[tokio::test]
async fn a_late_answer_is_cut_short() {
    let limits = Limits { request_seconds: 5, ..Limits::default() };
    let stage = Stage::new(ServerConfig { limits, ..ServerConfig::default() });
    let started = Instant::now().checked_sub(Duration::from_secs(9)).expect("the clock has run");
    let answers = stage.answers_from(1, stream::pending().boxed(), started);
    let (told, _) = outcome(answers).await;
    assert_eq!(told, "<the answer took longer than 5 s and was cancelled>");
}

#[tokio::test]
async fn a_stopping_server_cuts_answers_short() {
    let stage = Stage::new(ServerConfig::default());
    stage.canceller.cancel();
    let (told, _) = outcome(stage.answers_from(1, stream::pending().boxed(), Instant::now())).await;
    assert_eq!(told, "<the server is stopping; the answer was cancelled>");
}
