//! The shape of chat completions, whole and streamed.

use std::sync::Arc;

use serde_json::{Value, json};
use terrace_engine::TokenLogprobs;
use terrace_engine::text::TokenInfo;

use super::*;
use crate::language::TokenText;

fn names() -> TokenNames {
    Arc::new(|id| TokenText { text: format!("t{id}"), bytes: vec![id as u8] })
}

fn delta(choice: usize, text: &str, finish: Option<ChatFinish>) -> ChatDelta {
    let tokens = match text {
        "" => Vec::new(),
        _ => {
            let logprobs = Some(TokenLogprobs { logprob: -1.0, top: Vec::new() });
            vec![TokenInfo { id: 1, logprobs }]
        }
    };
    let segments = match text {
        "" => Vec::new(),
        _ => vec![OutputSegment::Text(text.to_owned())],
    };
    ChatDelta { choice, segments, tokens, finish }
}

/// The frames without what differs from run to run.
fn choices(frames: Vec<Frame>) -> Vec<Value> {
    let parsed = frames.iter().map(|frame| serde_json::from_str::<Value>(&frame.data).unwrap());
    parsed
        .map(|mut frame| {
            assert!(frame["id"].as_str().unwrap().starts_with("chatcmpl-"));
            assert_eq!(frame["object"], "chat.completion.chunk");
            assert_eq!(frame["model"], "m");
            json!({"choices": frame["choices"].take(), "usage": frame.get("usage")})
        })
        .collect()
}

/// Of two choices.
fn frames(logprobs: Option<TokenNames>, at_end: bool) -> ChatFrames {
    ChatFrames {
        writer: ChatWriter { logprobs, returns_token_ids: false },
        calls: vec![0; 2],
        head: Head::new("chatcmpl-", "chat.completion.chunk", "m"),
        warnings: Vec::new(),
        prompt_token_ids: None,
        prompt_tokens: 3,
        used_handle: None,
        usage: StreamUsage { at_end, in_chunks: false },
    }
}

fn written(frames: &mut ChatFrames, delta: ChatDelta) -> Vec<Frame> {
    frames.delta(delta, Usage { prompt_tokens: 3, ..Usage::default() })
}

/// A chunk of one choice, without log-probabilities and usage.
fn chunk(index: usize, delta: Value, finish_reason: Option<&str>) -> Value {
    let choice = json!({
        "index": index, "delta": delta, "logprobs": null, "finish_reason": finish_reason
    });
    json!({"choices": [choice], "usage": null})
}

#[test]
fn a_stream_opens_with_the_role_of_each_choice() {
    let choice = |index| chunk(index, json!({"role": "assistant", "content": ""}), None);
    assert_eq!(choices(frames(None, false).open()), [choice(0), choice(1)]);
}

#[test]
fn text_and_end_are_two_chunks() {
    let last = delta(1, "hi", Some(ChatFinish::Length));
    assert_eq!(
        choices(written(&mut frames(None, false), last)),
        [chunk(1, json!({"content": "hi"}), None), chunk(1, json!({}), Some("length")),]
    );
}

#[test]
fn a_delta_without_text_is_silent() {
    assert_eq!(written(&mut frames(Some(names()), false), delta(0, "", None)), Vec::new());
}

#[test]
fn logprobs_go_with_their_text() {
    let chunks = choices(written(&mut frames(Some(names()), false), delta(0, "hi", None)));
    assert_eq!(
        chunks[0]["choices"][0]["logprobs"],
        json!({
            "content": [{"token": "t1", "logprob": -1.0, "bytes": [1], "top_logprobs": []}],
            "refusal": null
        })
    );
}

#[test]
fn usage_is_null_until_the_last_chunk() {
    let mut frames = frames(None, true);
    let chunks = written(&mut frames, delta(0, "hi", None));
    assert!(chunks[0].data.ends_with(r#""usage":null}"#), "{chunks:?}");
    let usage = json!({
        "prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 2},
    });
    let mut last = frames.close(Usage { prompt_tokens: 3, cached_tokens: 2, new_tokens: 4 });
    assert_eq!(last.pop(), Some(Frame::done()));
    assert_eq!(choices(last), [json!({"choices": [], "usage": usage})]);
}

#[test]
fn usage_is_absent_unless_requested() {
    let mut frames = frames(None, false);
    assert!(!written(&mut frames, delta(0, "hi", None))[0].data.contains("usage"));
    assert_eq!(frames.close(Usage::default()), [Frame::done()]);
}

#[test]
fn continuous_usage_stands_in_every_chunk() {
    let usage = StreamUsage { at_end: true, in_chunks: true };
    let mut frames = ChatFrames { usage, ..frames(None, true) };
    let first: Value = serde_json::from_str(&frames.open()[0].data).unwrap();
    assert_eq!(first["usage"]["prompt_tokens"], 3);
    let counted = Usage { prompt_tokens: 3, new_tokens: 2, ..Usage::default() };
    let chunk: Value =
        serde_json::from_str(&frames.delta(delta(0, "hi", None), counted)[0].data).unwrap();
    assert_eq!(chunk["usage"]["total_tokens"], 5);
}

#[test]
fn token_ids_go_with_their_text() {
    let writer = ChatWriter { logprobs: None, returns_token_ids: true };
    let mut frames =
        ChatFrames { writer, prompt_token_ids: Some(vec![7, 8]), ..frames(None, false) };
    let opened: Vec<Value> =
        frames.open().iter().map(|frame| serde_json::from_str(&frame.data).unwrap()).collect();
    assert_eq!(opened[0]["prompt_token_ids"], json!([7, 8]));
    assert_eq!(opened[1].get("prompt_token_ids"), None);
    let chunks = choices(written(&mut frames, delta(0, "hi", None)));
    assert_eq!(chunks[0]["choices"][0]["token_ids"], json!([1]));
}
