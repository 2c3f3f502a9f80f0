//! Which events come, in which order, and what they add up to.

use std::sync::Arc;

use serde_json::{Value, json};
use terrace_engine::guidance::GrammarFault;
use terrace_engine::text::TokenInfo;
use terrace_engine::{Failure, TokenLogprobs};

use super::*;
use crate::chat::test_segments::{arguments, call, reasoning, text};
use crate::fields::Fields;
use crate::language::TokenText;
use crate::openai::responses::response_request::ResponseRequest;

fn writer(names: Option<TokenNames>) -> ResponseWriter {
    let body = br#"{"input": "hi", "metadata": {"a": "b"}}"#;
    let request = ResponseRequest::take(Fields::parse(body).unwrap()).unwrap();
    ResponseWriter::new(ResponseShape::begin("tiny", request.echo), names)
}

/// A delta of one token.
fn delta(segments: Vec<OutputSegment>) -> ChatDelta {
    let logprobs = Some(TokenLogprobs { logprob: -1.0, top: Vec::new() });
    let tokens = vec![TokenInfo { id: 7, logprobs }];
    ChatDelta { choice: 0, segments, tokens, finish: None }
}

fn written(mut writer: ResponseWriter, deltas: Vec<ChatDelta>) -> (ResponseShape, Vec<Event>) {
    let mut events = Vec::new();
    let new_tokens = deltas.len();
    for delta in deltas {
        events.extend(writer.delta(delta));
    }
    let usage = Usage { prompt_tokens: 5, new_tokens, ..Usage::default() };
    let (response, last) = writer.finish(usage);
    events.extend(last);
    (response, events)
}

/// The events' names without `response.`, and the output's items without their ids.
#[track_caller]
fn check(deltas: Vec<Vec<OutputSegment>>, finish: ChatFinish, names: &[&str], output: Value) {
    let mut deltas: Vec<_> = deltas.into_iter().map(delta).collect();
    deltas.last_mut().expect("deltas").finish = Some(finish);
    let (response, events) = written(writer(None), deltas);
    let found: Vec<_> = events.iter().map(|event| &event.name["response.".len()..]).collect();
    assert_eq!(found, names);
    let mut found = json!(response.output);
    for (index, item) in found.as_array_mut().expect("a list").iter_mut().enumerate() {
        check_item_events(&events, index, item);
        for name in ["id", "call_id", "content", "summary"] {
            item.as_object_mut().expect("an object").remove(name);
        }
    }
    assert_eq!(found, output);
}

/// The item's events bear its name and add up to it.
fn check_item_events(events: &[Event], index: usize, item: &Value) {
    let mut added = String::new();
    for body in events.iter().map(|event| json!(event.body)) {
        if body["output_index"] != index {
            continue;
        }
        let id = body.get("item_id").unwrap_or(&body["item"]["id"]);
        assert_eq!(*id, item["id"]);
        added.push_str(body["delta"].as_str().unwrap_or_default());
        if let Some(whole) = body["text"].as_str().or(body["arguments"].as_str()) {
            assert_eq!(added, whole);
        }
    }
    let whole = item["arguments"].as_str().or(item["content"][0]["text"].as_str());
    assert_eq!(Some(added.as_str()), whole);
}

const MESSAGE: [&str; 2] = ["output_item.added", "content_part.added"];
const MESSAGE_DONE: [&str; 3] = ["output_text.done", "content_part.done", "output_item.done"];
const THOUGHT_DONE: [&str; 3] = ["reasoning_text.done", "content_part.done", "output_item.done"];
const CALL_DONE: [&str; 2] = ["function_call_arguments.done", "output_item.done"];

#[test]
fn a_text_is_a_message() {
    check(
        vec![vec![text("Hel")], vec![], vec![text("lo")]],
        ChatFinish::Stop,
        &[&MESSAGE[..], &["output_text.delta", "output_text.delta"], &MESSAGE_DONE].concat(),
        json!([{"type": "message", "role": "assistant", "status": "completed"}]),
    );
}

#[test]
fn reasoning_text_and_calls_are_items_of_their_own() {
    let thinking = [&MESSAGE[..], &["reasoning_text.delta"], &THOUGHT_DONE].concat();
    let saying = [&MESSAGE[..], &["output_text.delta"], &MESSAGE_DONE].concat();
    let calling = [
        &["output_item.added", "function_call_arguments.delta"][..],
        &["function_call_arguments.delta"],
        &CALL_DONE,
    ]
    .concat();
    check(
        vec![
            vec![reasoning("Hm")],
            vec![text("Look:")],
            vec![call("f"), arguments("{\"a\": ")],
            vec![arguments("1}"), call("g"), arguments("{"), arguments("}")],
        ],
        ChatFinish::ToolCalls,
        &[thinking, saying, calling.clone(), calling].concat(),
        json!([
            {"type": "reasoning", "status": "completed"},
            {"type": "message", "role": "assistant", "status": "completed"},
            {"type": "function_call", "name": "f", "arguments": "{\"a\": 1}",
             "status": "completed"},
            {"type": "function_call", "name": "g", "arguments": "{}", "status": "completed"},
        ]),
    );
}

#[test]
fn what_is_cut_is_incomplete() {
    check(
        vec![vec![reasoning("Hm")], vec![text("Hel")]],
        ChatFinish::Length,
        &[
            &MESSAGE[..],
            &["reasoning_text.delta"],
            &THOUGHT_DONE,
            &MESSAGE,
            &["output_text.delta"],
            &MESSAGE_DONE,
        ]
        .concat(),
        json!([
            {"type": "reasoning", "status": "completed"},
            {"type": "message", "role": "assistant", "status": "incomplete"},
        ]),
    );
    check(vec![vec![]], ChatFinish::Length, &[], json!([]));
    let mut cut = delta(vec![call("f"), arguments("{\"a\"")]);
    cut.finish = Some(ChatFinish::Length);
    let (response, _) = written(writer(None), vec![cut]);
    assert_eq!(response.status, ResponseStatus::Incomplete);
    let details = Some(IncompleteDetails { reason: "max_output_tokens" });
    assert_eq!((response.incomplete_details, response.completed_at), (details, None));
    assert_eq!(json!(response.output)[0]["status"], "incomplete");
}

#[test]
fn an_output_of_nothing_is_an_empty_message() {
    check(
        vec![vec![]],
        ChatFinish::Stop,
        &[&MESSAGE[..], &MESSAGE_DONE].concat(),
        json!([{"type": "message", "role": "assistant", "status": "completed"}]),
    );
    let only_thought = [&MESSAGE[..], &["reasoning_text.delta"], &THOUGHT_DONE].concat();
    check(
        vec![vec![reasoning("Hm")]],
        ChatFinish::Stop,
        &[&only_thought[..], &MESSAGE, &MESSAGE_DONE].concat(),
        json!([
            {"type": "reasoning", "status": "completed"},
            {"type": "message", "role": "assistant", "status": "completed"},
        ]),
    );
}

#[test]
fn a_response_begins_in_progress_and_ends_with_its_usage() {
    let writer = writer(None);
    let begun: Vec<_> = writer.begin().iter().map(|event| json!(event.body)).collect();
    assert_eq!(begun[0], begun[1]);
    let first = &begun[0]["response"];
    assert_eq!((&first["status"], &first["usage"]), (&json!("in_progress"), &Value::Null));
    let mut last = delta(vec![text("b")]);
    last.finish = Some(ChatFinish::Stop);
    let deltas = vec![delta(vec![]), delta(vec![reasoning("a")]), delta(vec![]), last];
    let (response, _) = written(writer, deltas);
    assert_eq!(first["id"], response.id.as_str());
    assert_eq!(
        json!(response.usage),
        json!({
            "input_tokens": 5, "output_tokens": 4, "total_tokens": 9,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 2},
        })
    );
    let response = json!(response);
    assert_eq!((&response["status"], &response["error"]), (&json!("completed"), &Value::Null));
    assert_eq!((&response["metadata"], &response["store"]), (&json!({"a": "b"}), &json!(true)));
    assert_eq!(response.get("warnings"), None);
}

#[test]
fn logprobs_are_those_of_the_texts_tokens() {
    let named = |id: u32| TokenText { text: format!("t{id}"), bytes: Vec::new() };
    let names: TokenNames = Arc::new(named);
    let mut last = delta(vec![]);
    last.finish = Some(ChatFinish::Stop);
    let deltas = vec![
        delta(vec![reasoning("a")]),
        delta(vec![]),
        delta(vec![text("b")]),
        delta(vec![]),
        delta(vec![text("c")]),
        delta(vec![call("f"), arguments("{}")]),
        delta(vec![text("d")]),
        last,
    ];
    let (response, events) = written(writer(Some(names)), deltas);
    let counts: Vec<_> = json!(response.output)
        .as_array()
        .expect("items")
        .iter()
        .map(|item| item["content"][0]["logprobs"].as_array().map_or(0, Vec::len))
        .collect();
    assert_eq!(counts, [0, 4, 0, 2]);
    let streamed =
        events.iter().map(|event| json!(event.body)).filter(|body| body.get("delta").is_some());
    let streamed: usize =
        streamed.map(|body| body["logprobs"].as_array().map_or(0, Vec::len)).sum();
    assert_eq!(streamed, 6);
}

#[test]
fn a_failure_says_why_and_how_far_it_came() {
    let mut writer = writer(None);
    writer.delta(delta(vec![text("Hel")]));
    let event = writer.fail(&ApiError::stopping());
    assert_eq!(event.name, "response.failed");
    let response = json!(event.body)["response"].clone();
    assert_eq!(
        (&response["status"], &response["error"]["code"]),
        (&json!("failed"), &json!("server_error"))
    );
    assert_eq!(response["output"][0]["content"][0]["text"], "Hel");
    assert_eq!(response["output"][0]["status"], "incomplete");
    let error = ResponseFailure::from(&ApiError::from(Failure::BadGrammar(GrammarFault::DeadEnd)));
    assert_eq!(error.code, "invalid_prompt");
}
