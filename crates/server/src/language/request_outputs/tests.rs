//! What a client sees of an output: deltas, ends, limits and failures.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use serde_json::Value;
use terrace_engine::Failure;

use super::*;
use crate::limits::Limits;
use crate::server_config::ServerConfig;
use crate::services::Services;
use crate::shutdown::{Canceller, cancel_signal};

/// A service without models, and outputs that are given instead of sampled.
pub struct Stage {
    pub state: AppState,
    pub canceller: Canceller,
}

impl Stage {
    pub fn new(config: ServerConfig) -> Self {
        let (canceller, cancel) = cancel_signal();
        Self { state: AppState::new(config, Services::default(), cancel), canceller }
    }

    /// One prompt of three tokens, `outputs` outputs of it, these deltas.
    pub fn outputs(&self, outputs: usize, deltas: Vec<OutputDelta>) -> RequestOutputs {
        self.outputs_from(outputs, stream::iter(deltas).boxed(), Instant::now())
    }

    fn outputs_from(
        &self,
        outputs: usize,
        deltas: BoxStream<'static, OutputDelta>,
        started: Instant,
    ) -> RequestOutputs {
        let request = Request::new(Body::empty());
        let mut log = RequestLog::begin(&request, Arc::clone(&self.state.metrics));
        log.started = started;
        let deltas = SelectAll::from_iter([deltas]);
        RequestOutputs::new(&self.state, Arc::new(log), vec![vec![1, 2, 3].into()], outputs, deltas)
    }
}

/// A delta of one token.
pub fn delta(output: usize, text: &str, finish: Option<TextFinish>) -> OutputDelta {
    let tokens = vec![TokenInfo { id: 7, logprobs: None }];
    OutputDelta {
        prompt: 0,
        output,
        text: text.to_owned(),
        tokens,
        finish,
        ..OutputDelta::default()
    }
}

async fn outcome(mut outputs: RequestOutputs) -> (String, Usage) {
    let mut seen = String::new();
    while let Some(delta) = outputs.next().await {
        match delta {
            Ok(delta) => seen += &delta.text,
            Err(error) => {
                let error: Value = serde_json::from_str(&error.to_json()).expect("JSON");
                seen += &format!("<{}>", error["error"]["message"].as_str().expect("a message"));
            }
        }
    }
    (seen, outputs.usage())
}

#[tokio::test]
async fn tokens_are_counted_and_so_is_the_one_that_stopped() {
    let stage = Stage::new(ServerConfig::default());
    let deltas = vec![
        delta(0, "a", None),
        delta(1, "b", Some(TextFinish::Length)),
        delta(0, "c", Some(TextFinish::StopToken(2))),
    ];
    let (seen, usage) = outcome(stage.outputs(2, deltas)).await;
    assert_eq!(seen, "abc");
    assert_eq!(usage, Usage { prompt_tokens: 3, new_tokens: 4, ..Usage::default() });
}

#[tokio::test]
async fn a_failed_step_ends_all() {
    let stage = Stage::new(ServerConfig::default());
    let deltas = vec![
        delta(0, "a", None),
        delta(0, "", Some(TextFinish::Failed(Failure::Step))),
        delta(0, "b", None),
    ];
    let (seen, _) = outcome(stage.outputs(1, deltas)).await;
    assert_eq!(seen, "a<the step failed; the server's log says why>");
}

#[tokio::test]
async fn an_output_without_an_end_is_an_error() {
    let stage = Stage::new(ServerConfig::default());
    let (seen, _) = outcome(stage.outputs(1, vec![delta(0, "a", None)])).await;
    assert_eq!(seen, "a<the engine has stopped>");
}

#[tokio::test]
async fn a_late_request_is_cut_short() {
    let limits = Limits { request_seconds: 5, ..Limits::default() };
    let stage = Stage::new(ServerConfig { limits, ..ServerConfig::default() });
    let started = Instant::now().checked_sub(Duration::from_secs(9)).expect("the clock has run");
    let outputs = stage.outputs_from(1, stream::pending().boxed(), started);
    let (seen, _) = outcome(outputs).await;
    assert_eq!(seen, "<the request took longer than 5 s and was cancelled>");
}

#[tokio::test]
async fn a_stopping_server_cuts_outputs_short() {
    let stage = Stage::new(ServerConfig::default());
    stage.canceller.cancel();
    let (seen, _) = outcome(stage.outputs_from(1, stream::pending().boxed(), Instant::now())).await;
    assert_eq!(seen, "<the server is stopping; the request was cancelled>");
}
