//! The outputs of a chat as Ollama's responses, whole or a line for each delta.

use std::time::{Duration, Instant};

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use terrace_engine::text::TokenInfo;

use crate::api_error::{ApiError, ApiResult};
use crate::chat::{ChatDelta, ChatFinish, ChatOutputs, OutputSegment, WholeCall};
use crate::ids;
use crate::language::sse::{self, Frame, Frames, Source};
use crate::language::{TokenNames, Usage};
use crate::ollama::error_shape::OllamaError;
use crate::ollama::line_shape::{
    ChatLine, GenerateLine, Line, LineCall, LineEnd, LineFunction, LineHead, LineMessage,
    LineTotals,
};
use crate::ollama::timestamp;
use crate::openai::logprobs::ChatLogprob;

/// Whose response it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    Chat,
    Generate,
}

pub struct LineWriter {
    kind: LineKind,
    /// By the name that was requested.
    model: String,
    /// Names the tokens where log-probabilities are requested.
    logprobs: Option<TokenNames>,
    times: Times,
    calls: CallGatherer,
    finish: Option<ChatFinish>,
}

/// What a line says.
#[derive(Debug, Default, PartialEq)]
struct Said {
    text: String,
    thinking: String,
    calls: Vec<LineCall>,
}

impl LineWriter {
    /// `started`: when the request came. The prompt has just been handed to the engine.
    pub fn new(
        kind: LineKind,
        model: String,
        logprobs: Option<TokenNames>,
        started: Instant,
    ) -> Self {
        let times = Times { started, submitted: Instant::now(), first_token: None };
        Self { kind, model, logprobs, times, calls: CallGatherer::default(), finish: None }
    }

    pub async fn respond(self, outputs: ChatOutputs, is_streamed: bool) -> ApiResult<Response> {
        match is_streamed {
            true => Ok(sse::respond_lines(outputs, self)),
            false => self.whole(outputs).await,
        }
    }

    async fn whole(mut self, mut outputs: ChatOutputs) -> ApiResult<Response> {
        let mut said = Said::default();
        let mut logprobs = Vec::new();
        while let Some(delta) = outputs.next().await {
            let delta = delta?;
            logprobs.extend(self.logprobs_of(&delta.tokens));
            for new in self.said(delta) {
                said.text.push_str(&new.text);
                said.thinking.push_str(&new.thinking);
                said.calls.extend(new.calls);
            }
        }
        let end = LineEnd { logprobs, ..self.end(outputs.usage()) };
        Ok(Json(line(self.kind, &self.model, said, end)).into_response())
    }

    /// What is new, in the order in which it came.
    fn said(&mut self, delta: ChatDelta) -> Vec<Said> {
        self.times.first_token.get_or_insert_with(Instant::now);
        let ChatDelta { segments, finish, .. } = delta;
        let mut said: Vec<_> =
            segments.into_iter().flat_map(|segment| self.calls.push(segment)).collect();
        if let Some(finish) = finish {
            said.extend(self.calls.finish(&finish));
            self.finish = Some(finish);
        }
        said
    }

    fn logprobs_of(&self, tokens: &[TokenInfo]) -> Vec<ChatLogprob> {
        let Some(names) = &self.logprobs else { return Vec::new() };
        tokens.iter().filter_map(|info| ChatLogprob::of(info, names)).collect()
    }

    fn end(&self, usage: Usage) -> LineEnd {
        let Times { started, submitted, first_token } = self.times;
        let now = Instant::now();
        let first_token = first_token.unwrap_or(now);
        // Clients divide by it.
        let nanoseconds =
            |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
        let done_reason = match self.finish {
            Some(ChatFinish::Length) => "length",
            _ => "stop",
        };
        let totals = LineTotals {
            total_duration: nanoseconds(now - started),
            load_duration: nanoseconds(submitted - started),
            prompt_eval_count: usage.prompt_tokens,
            prompt_eval_duration: nanoseconds(first_token - submitted),
            eval_count: usage.new_tokens,
            eval_duration: nanoseconds(now - first_token),
        };
        LineEnd {
            logprobs: Vec::new(),
            done: true,
            done_reason: Some(done_reason),
            totals: Some(totals),
        }
    }
}

fn line(kind: LineKind, model: &str, said: Said, end: LineEnd) -> Line {
    let Said { text, thinking, calls } = said;
    let head = LineHead { model: model.to_owned(), created_at: timestamp::now() };
    match kind {
        LineKind::Chat => {
            let message =
                LineMessage { role: "assistant", content: text, thinking, tool_calls: calls };
            Line::Chat(ChatLine { head, message, end })
        }
        LineKind::Generate => Line::Generate(GenerateLine { head, response: text, thinking, end }),
    }
}

/// The response to a request that asks for nothing but that the model be loaded, as it is.
pub fn loaded(kind: LineKind, model: &str) -> Response {
    let end = LineEnd { done: true, done_reason: Some("load"), ..LineEnd::default() };
    Json(line(kind, model, Said::default(), end)).into_response()
}

impl Frames<ChatDelta> for LineWriter {
    fn open(&mut self) -> Vec<Frame> {
        Vec::new()
    }

    fn delta(&mut self, delta: ChatDelta, _usage: Usage) -> Vec<Frame> {
        let mut logprobs = self.logprobs_of(&delta.tokens);
        let mut said = self.said(delta);
        if said.is_empty() && !logprobs.is_empty() {
            // Their tokens' text is not decided yet.
            said.push(Said::default());
        }
        let line = |said| {
            let logprobs = std::mem::take(&mut logprobs);
            let end = LineEnd { logprobs, ..LineEnd::default() };
            Frame::json(&line(self.kind, &self.model, said, end))
        };
        said.into_iter().map(line).collect()
    }

    fn close(&mut self, usage: Usage) -> Vec<Frame> {
        let end = self.end(usage);
        vec![Frame::json(&line(self.kind, &self.model, Said::default(), end))]
    }

    fn error(&mut self, error: &ApiError) -> Frame {
        Frame::json(&OllamaError { error: error.message() })
    }
}

/// When the request came, was handed to the engine, and had its first token.
#[derive(Clone, Copy)]
struct Times {
    started: Instant,
    submitted: Instant,
    first_token: Option<Instant>,
}

/// Makes whole calls of their deltas: Ollama's clients want the arguments as an object.
#[derive(Default)]
struct CallGatherer {
    current: Option<WholeCall>,
    /// Calls that were given.
    count: usize,
}

impl CallGatherer {
    fn push(&mut self, segment: OutputSegment) -> Vec<Said> {
        let mut said = Vec::new();
        match segment {
            OutputSegment::Arguments(text) => {
                let call = self.current.as_mut().expect("a call comes before its arguments");
                call.arguments.push_str(&text);
            }
            OutputSegment::Call { name } => {
                said.extend(self.end_call());
                self.current = Some(WholeCall { name, arguments: String::new() });
            }
            OutputSegment::Text(text) => {
                said.extend(self.end_call());
                said.push(Said { text, ..Said::default() });
            }
            OutputSegment::Reasoning(thinking) => {
                said.extend(self.end_call());
                said.push(Said { thinking, ..Said::default() });
            }
        }
        said
    }

    /// What is left. A call that was cut by the longest length is not shown.
    fn finish(&mut self, finish: &ChatFinish) -> Option<Said> {
        let is_cut = *finish == ChatFinish::Length;
        let is_whole = |call: &WholeCall| arguments_of(call).is_some();
        if is_cut && !self.current.as_ref().is_some_and(is_whole) {
            self.current = None;
        }
        self.end_call()
    }

    /// The call whose arguments are complete. What has none that are an object is no call, and
    /// shown as text.
    fn end_call(&mut self) -> Option<Said> {
        let call = self.current.take()?;
        let Some(arguments) = arguments_of(&call) else {
            let WholeCall { name, arguments } = call;
            let text = format!(r#"{{"name": {}, "arguments": {arguments}}}"#, json!(name));
            return Some(Said { text, ..Said::default() });
        };
        let function = LineFunction { index: self.count, name: call.name, arguments };
        self.count += 1;
        let calls = vec![LineCall { id: ids::tool_call(), function }];
        Some(Said { calls, ..Said::default() })
    }
}

fn arguments_of(call: &WholeCall) -> Option<Map<String, Value>> {
    serde_json::from_str(&call.arguments).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(segments: Vec<OutputSegment>, finish: ChatFinish) -> Vec<Said> {
        let mut calls = CallGatherer::default();
        let mut said: Vec<_> =
            segments.into_iter().flat_map(|segment| calls.push(segment)).collect();
        said.extend(calls.finish(&finish));
        said
    }

    fn call(name: &str, arguments: [&str; 2]) -> Vec<OutputSegment> {
        let mut segments = vec![OutputSegment::Call { name: name.to_owned() }];
        segments.extend(arguments.map(|text| OutputSegment::Arguments(text.to_owned())));
        segments
    }

    #[test]
    fn calls_come_whole() {
        let segments = [
            vec![OutputSegment::Text("Well.".to_owned())],
            call("f", [r#"{"x""#, ": 1}"]),
            call("g", ["{", "}"]),
        ];
        let said = gathered(segments.concat(), ChatFinish::ToolCalls);
        assert_eq!(said.len(), 3);
        assert_eq!(said[0].text, "Well.");
        let function = |index: usize| &said[index].calls[0].function;
        assert_eq!((function(1).index, function(1).name.as_str()), (0, "f"));
        assert_eq!(Value::Object(function(1).arguments.clone()), json!({"x": 1}));
        assert_eq!((function(2).index, function(2).name.as_str()), (1, "g"));
        assert_ne!(said[1].calls[0].id, said[2].calls[0].id);
    }

    #[test]
    fn a_call_that_was_cut_is_not_shown() {
        assert_eq!(gathered(call("f", [r#"{"x""#, ": "]), ChatFinish::Length), []);
        assert_eq!(gathered(call("f", ["{", "}"]), ChatFinish::Length)[0].calls.len(), 1);
    }

    #[test]
    fn arguments_that_are_no_object_are_text() {
        let said = gathered(call("f", ["{x", ": 1}"]), ChatFinish::ToolCalls);
        let text = r#"{"name": "f", "arguments": {x: 1}}"#.to_owned();
        assert_eq!(said, [Said { text, ..Said::default() }]);
    }

    #[test]
    fn the_last_line_says_why_and_how_long() {
        let mut writer = LineWriter::new(LineKind::Chat, "m".to_owned(), None, Instant::now());
        writer.finish = Some(ChatFinish::Length);
        let end = writer.end(Usage { prompt_tokens: 3, new_tokens: 2, ..Usage::default() });
        assert_eq!(end.done_reason, Some("length"));
        let totals = end.totals.expect("the totals of the last line");
        assert_eq!((totals.prompt_eval_count, totals.eval_count), (3, 2));
        assert!(totals.total_duration >= totals.load_duration && totals.eval_duration >= 1);
    }
}
