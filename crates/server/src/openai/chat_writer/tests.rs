//! The shape of chat completions, whole and streamed.

use std::sync::Arc;

use serde_json::{Value, json};
use terrace_engine::TokenLogprobs;
use terrace_engine::text::{TextFinish, TokenInfo};

use super::*;
use crate::served_model::TokenText;
use crate::tools::ToolStyle;

fn names() -> TokenNames {
    Arc::new(|id| TokenText { text: format!("t{id}"), bytes: vec![id as u8] })
}

fn piece(answer: usize, text: &str, finish: Option<TextFinish>) -> Piece {
    let tokens = match text {
        "" => Vec::new(),
        _ => {
            let logprobs = Some(TokenLogprobs { logprob: -1.0, top: Vec::new() });
            vec![TokenInfo { id: 1, logprobs }]
        }
    };
    Piece { prompt: 0, answer, text: text.to_owned(), tokens, finish, prompt_logprobs: None }
}

/// The frames without what differs from run to run.
fn choices(frames: Vec<String>) -> Vec<Value> {
    let parsed = frames.iter().map(|frame| serde_json::from_str::<Value>(frame).unwrap());
    parsed
        .map(|mut frame| {
            assert!(frame["id"].as_str().unwrap().starts_with("chatcmpl-"));
            assert_eq!(frame["object"], "chat.completion.chunk");
            assert_eq!(frame["model"], "m");
            json!({"choices": frame["choices"].take(), "usage": frame.get("usage")})
        })
        .collect()
}

fn frames(logprobs: Option<TokenNames>, include_usage: bool) -> ChatFrames {
    let reader = || AnswerReader::new(ToolStyle::of_template(None), None);
    let readers = vec![reader(), reader()];
    ChatWriter { model: "m".to_owned(), readers, logprobs }.streamed(include_usage)
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
    let last = piece(1, "hi", Some(TextFinish::Length));
    assert_eq!(
        choices(frames(None, false).piece(last)),
        [chunk(1, json!({"content": "hi"}), None), chunk(1, json!({}), Some("length")),]
    );
}

#[test]
fn a_piece_without_text_is_silent() {
    assert_eq!(frames(Some(names()), false).piece(piece(0, "", None)), Vec::<String>::new());
}

#[test]
fn logprobs_go_with_their_text() {
    let written = choices(frames(Some(names()), false).piece(piece(0, "hi", None)));
    assert_eq!(
        written[0]["choices"][0]["logprobs"],
        json!({
            "content": [{"token": "t1", "logprob": -1.0, "bytes": [1], "top_logprobs": []}],
            "refusal": null
        })
    );
}

#[test]
fn usage_is_null_until_the_last_chunk() {
    let mut frames = frames(None, true);
    let written = frames.piece(piece(0, "hi", None));
    assert!(written[0].ends_with(r#""usage":null}"#), "{written:?}");
    let usage = json!({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7});
    assert_eq!(
        choices(frames.close(Usage { prompt_tokens: 3, new_tokens: 4 })),
        [json!({"choices": [], "usage": usage})]
    );
}

#[test]
fn usage_is_absent_unless_asked() {
    let mut frames = frames(None, false);
    assert!(!frames.piece(piece(0, "hi", None))[0].contains("usage"));
    assert_eq!(frames.close(Usage::default()), Vec::<String>::new());
}
