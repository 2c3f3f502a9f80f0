//! The blocks of messages, whole and streamed.

use serde_json::{Value, json};

use super::*;
use crate::chat::test_segments::{arguments, call, reasoning, text};

/// Thinking, a text, two calls and another text, in many segments.
fn all_kinds() -> Vec<OutputSegment> {
    vec![
        reasoning("Call f."),
        reasoning(" Now."),
        text("Look"),
        text(":"),
        call("f"),
        arguments("{\"x\""),
        arguments(": 1}"),
        call("f"),
        arguments("{}"),
        text("There."),
    ]
}

fn without_id(mut block: Value) -> Value {
    if let Some(id) = block.get_mut("id") {
        assert!(id.as_str().is_some_and(|id| id.starts_with("toolu_") && id.len() == 15), "{id}");
        *id = json!("toolu_");
    }
    block
}

fn whole(segments: Vec<OutputSegment>, shows_thinking: bool, is_cut: bool) -> Vec<Value> {
    let writer = MessageWriter { shows_thinking };
    let mut drafts = Drafts::default();
    segments.into_iter().for_each(|segment| drafts.add(writer.shown(segment)));
    let blocks = drafts.finish(is_cut).into_iter();
    blocks.map(|block| without_id(serde_json::to_value(block).unwrap())).collect()
}

/// The events of a stream, each segment in a delta of its own.
fn streamed(segments: Vec<OutputSegment>, shows_thinking: bool, finish: ChatFinish) -> Vec<Value> {
    let mut frames = MessageFrames {
        writer: MessageWriter { shows_thinking },
        message: Some(Message::begin("m", 3, &[])),
        open: None,
        blocks: 0,
        finish: None,
        request_id: "req-1".to_owned(),
    };
    let usage = Usage { prompt_tokens: 3, new_tokens: 7, ..Usage::default() };
    let delta = |segments, finish| ChatDelta { choice: 0, segments, tokens: Vec::new(), finish };
    let mut written = frames.open();
    for segment in segments {
        written.extend(frames.delta(delta(vec![segment], None), usage));
    }
    written.extend(frames.delta(delta(Vec::new(), Some(finish)), usage));
    written.extend(frames.close(usage));
    let events = written.iter().map(|frame| {
        let data: Value = serde_json::from_str(&frame.data).unwrap();
        assert_eq!(frame.event, data["type"].as_str(), "{data}");
        data
    });
    events.collect()
}

/// The blocks that a client builds from the events.
fn built(events: &[Value]) -> Vec<Value> {
    let mut blocks: Vec<Value> = Vec::new();
    let mut input = String::new();
    for event in events {
        let index = event["index"].as_u64().map_or(0, |index| index as usize);
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!(index, blocks.len(), "blocks come in order");
                input.clear();
                blocks.push(without_id(event["content_block"].clone()));
            }
            "content_block_delta" => {
                assert_eq!(index + 1, blocks.len(), "only the last block grows");
                let delta = event["delta"].as_object().unwrap();
                let block = blocks.last_mut().unwrap();
                for (name, more) in delta.iter().filter(|(name, _)| *name != "type") {
                    if name == "partial_json" {
                        input += more.as_str().unwrap();
                        continue;
                    }
                    let text = [block[name].as_str().unwrap(), more.as_str().unwrap()].concat();
                    block[name] = json!(text);
                }
            }
            "content_block_stop" if !input.is_empty() => {
                blocks.last_mut().unwrap()["input"] = serde_json::from_str(&input).unwrap();
            }
            _ => {}
        }
    }
    blocks
}

#[test]
fn blocks_are_the_same_whole_and_streamed() {
    let want = json!([
        {"type": "thinking", "thinking": "Call f. Now.", "signature": ""},
        {"type": "text", "text": "Look:"},
        {"type": "tool_use", "id": "toolu_", "name": "f", "input": {"x": 1}},
        {"type": "tool_use", "id": "toolu_", "name": "f", "input": {}},
        {"type": "text", "text": "There."},
    ]);
    assert_eq!(json!(whole(all_kinds(), true, false)), want);
    let events = streamed(all_kinds(), true, ChatFinish::ToolCalls);
    assert_eq!(json!(built(&events)), want);
}

#[test]
fn events_come_in_their_order() {
    let segments = vec![reasoning("Hm."), text("Four"), text(".")];
    let events = streamed(segments, true, ChatFinish::StopText("END".to_owned()));
    let mut start = events[0]["message"].clone();
    assert!(start["id"].as_str().unwrap().starts_with("msg_"));
    start["id"] = json!("msg_");
    let usage = |output: usize| {
        json!({"input_tokens": 3, "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0, "output_tokens": output})
    };
    let message = json!({
        "id": "msg_", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage(0),
    });
    assert_eq!(start, message);
    let kind = "content_block_delta";
    let delta = |index: usize, delta| json!({"type": kind, "index": index, "delta": delta});
    let want = json!([
        {"type": "ping"},
        {"type": "content_block_start", "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
        delta(0, json!({"type": "thinking_delta", "thinking": "Hm."})),
        delta(0, json!({"type": "signature_delta", "signature": ""})),
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        delta(1, json!({"type": "text_delta", "text": "Four"})),
        delta(1, json!({"type": "text_delta", "text": "."})),
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "usage": usage(7),
            "delta": {"stop_reason": "stop_sequence", "stop_sequence": "END"}},
        {"type": "message_stop"},
    ]);
    assert_eq!(json!(events[1..]), want);
}

#[test]
fn thinking_may_be_left_out() {
    let want = json!([
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "text", "text": "Four."},
    ]);
    let segments = || vec![reasoning("Hm."), reasoning(" So."), text("Four.")];
    assert_eq!(json!(whole(segments(), false, false)), want);
    let events = streamed(segments(), false, ChatFinish::Stop);
    assert_eq!(json!(built(&events)), want);
    assert!(!json!(events).to_string().contains("Hm."), "{events:?}");
}

#[test]
fn a_cut_call_is_not_given_to_be_run() {
    let cut = || vec![text("Look:"), call("f"), arguments("{\"path\": \"/tm")];
    assert_eq!(whole(cut(), true, true), [json!({"type": "text", "text": "Look:"})]);
    // Cut after its arguments, it is whole.
    let done = vec![call("f"), arguments("{}")];
    assert_eq!(whole(done, true, true)[0]["type"], "tool_use");
    // A stream has begun it; that it is cut is said at its end.
    let events = streamed(cut(), true, ChatFinish::Length);
    let end = &events[events.len() - 2];
    assert_eq!(end["delta"]["stop_reason"], "max_tokens");
}

#[test]
fn a_call_with_broken_arguments_stays_text() {
    let mut drafts = Drafts::default();
    [call("f"), arguments("{'x': 1}")].into_iter().for_each(|segment| drafts.add(segment));
    let content = drafts.finish(false);
    assert_eq!(content, [ContentBlock::Text { text: "f {'x': 1}".to_owned() }]);
    let stop = stop_of(Some(ChatFinish::ToolCalls), &content);
    assert_eq!(stop.stop_reason, Some(StopReason::EndTurn));
}

#[test]
fn an_error_ends_a_stream_by_its_name() {
    let mut frames = MessageFrames {
        writer: MessageWriter { shows_thinking: true },
        message: None,
        open: None,
        blocks: 0,
        finish: None,
        request_id: "req-1".to_owned(),
    };
    let frame = frames.error(&ApiError::internal("a step failed"));
    assert_eq!(frame.event, Some("error"));
    let want = json!({"type": "error", "request_id": "req-1",
        "error": {"type": "api_error", "message": "a step failed"}});
    assert_eq!(serde_json::from_str::<Value>(&frame.data).unwrap(), want);
}
