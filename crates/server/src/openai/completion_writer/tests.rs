//! The shape of text completions, whole and streamed.

use std::sync::Arc;

use serde_json::{Value, json};
use terrace_engine::text::{TextFinish, TokenInfo};

use super::*;
use crate::language::TokenText;

fn names() -> TokenNames {
    Arc::new(|id| TokenText { text: format!("t{id}"), bytes: format!("t{id}").into_bytes() })
}

fn scored(logprob: f32) -> Option<TokenLogprobs> {
    Some(TokenLogprobs { logprob, top: Vec::new() })
}

fn delta(text: &str, ids: &[TokenId], finish: Option<TextFinish>) -> OutputDelta {
    let tokens = ids.iter().map(|&id| TokenInfo { id, logprobs: scored(-1.0) }).collect();
    OutputDelta {
        prompt: 0,
        output: 0,
        text: text.to_owned(),
        tokens,
        finish,
        ..OutputDelta::default()
    }
}

fn writer(echo: Option<Echo>) -> CompletionWriter {
    CompletionWriter {
        head: Head::new("cmpl-", "text_completion", "m"),
        names: names(),
        reports: Reports { logprobs: true, ..Reports::default() },
        echo: echo.map(|echo| vec![echo]),
        prompts: vec![vec![8, 9].into()],
        prompt_only: false,
        written: vec![Written::default()],
        warnings: Vec::new(),
        used_handle: None,
    }
}

fn echo() -> Echo {
    Echo { text: "t8t9".to_owned(), tokens: vec![8, 9].into(), logprobs: None }
}

fn json_of(choice: &CompletionChoice) -> Value {
    serde_json::to_value(choice).unwrap()
}

#[test]
fn offsets_count_the_characters_before() {
    let mut writer = writer(None);
    writer.choice(delta("ét", &[1], None));
    let choice = writer.choice(delta("t1t2", &[1, 2], Some(TextFinish::Length)));
    assert_eq!(json_of(&choice)["logprobs"]["text_offset"], json!([2, 4]));
    assert_eq!(json_of(&choice)["finish_reason"], "length");
}

#[test]
fn the_echo_goes_in_front_once() {
    let mut writer = writer(Some(echo()));
    let mut first = delta("t1", &[1], None);
    first.prompt_logprobs = Some(vec![None, scored(-0.5)]);
    let choice = json_of(&writer.choice(first));
    assert_eq!(choice["text"], "t8t9t1");
    assert_eq!(choice["logprobs"]["tokens"], json!(["t8", "t9", "t1"]));
    assert_eq!(choice["logprobs"]["token_logprobs"], json!([null, -0.5, -1.0]));
    assert_eq!(choice["logprobs"]["text_offset"], json!([0, 2, 4]));
    assert_eq!(json_of(&writer.choice(delta("t2", &[2], None)))["text"], "t2");
}

#[test]
fn a_prompt_alone_hides_the_token_made_on_the_way() {
    let mut writer = CompletionWriter { prompt_only: true, ..writer(Some(echo())) };
    let choice = json_of(&writer.choice(delta("t1", &[1], Some(TextFinish::Length))));
    assert_eq!(choice["text"], "t8t9");
    assert_eq!(choice["logprobs"]["tokens"], json!(["t8", "t9"]));
    let usage = writer.usage(Usage { prompt_tokens: 2, new_tokens: 1, ..Usage::default() });
    assert_eq!((usage.completion_tokens, usage.total_tokens), (0, 2));
}

#[test]
fn parts_add_up_to_the_whole() {
    let mut writer = writer(None);
    let mut choice = writer.choice(delta("t1", &[1], None));
    choice.append(writer.choice(delta("t2", &[2], Some(TextFinish::StopText("x".to_owned())))));
    let whole = json_of(&choice);
    assert_eq!(whole["text"], "t1t2");
    assert_eq!(whole["finish_reason"], "stop");
    assert_eq!(whole["logprobs"]["text_offset"], json!([0, 2]));
}

#[test]
fn a_stream_skips_empty_deltas_and_ends_with_usage() {
    let mut frames = writer(None).streamed(StreamUsage { at_end: true, in_chunks: false });
    let none = Usage::default();
    assert_eq!(frames.delta(delta("", &[], None), none), Vec::new());
    let chunk = &frames.delta(delta("t1", &[1], None), none)[0];
    let chunk: Value = serde_json::from_str(&chunk.data).unwrap();
    assert_eq!(chunk["object"], "text_completion");
    assert_eq!(chunk["choices"][0]["text"], "t1");
    assert_eq!(chunk["usage"], Value::Null);
    let last = frames.close(Usage { prompt_tokens: 1, new_tokens: 1, ..Usage::default() });
    let last: Value = serde_json::from_str(&last[0].data).unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["total_tokens"], 2);
}

#[test]
fn the_best_choices_have_the_largest_mean_logprob() {
    let mut writer = CompletionWriter { written: vec![Written::default(); 3], ..writer(None) };
    let mut choices = Vec::new();
    for (output, logprob) in [(0, -3.0), (1, -1.0), (2, -2.0)] {
        let tokens = vec![TokenInfo { id: 1, logprobs: scored(logprob) }; output + 1];
        let delta = OutputDelta { output, tokens, ..delta(&output.to_string(), &[], None) };
        choices.push(writer.choice(delta));
    }
    let best = writer.best_of(choices, 2);
    let shown: Vec<_> = best.iter().map(|choice| (choice.index, choice.text.as_str())).collect();
    assert_eq!(shown, [(0, "1"), (1, "2")]);
}

#[test]
fn the_prompts_tokens_come_with_the_first_delta() {
    let reports = Reports { prompt_logprobs: true, token_ids: true, ..Reports::default() };
    let mut writer = CompletionWriter { reports, ..writer(None) };
    let mut first = delta("t1", &[1], None);
    let top = vec![(5, -0.25), (9, -0.5)];
    first.prompt_logprobs = Some(vec![None, Some(TokenLogprobs { logprob: -0.5, top })]);
    let choice = json_of(&writer.choice(first));
    assert_eq!((&choice["prompt_token_ids"], &choice["token_ids"]), (&json!([8, 9]), &json!([1])));
    assert_eq!(
        choice["prompt_logprobs"],
        json!([null, {
            "5": {"logprob": -0.25, "rank": 1, "decoded_token": "t5"},
            "9": {"logprob": -0.5, "rank": 2, "decoded_token": "t9"},
        }])
    );
    let second = json_of(&writer.choice(delta("t2", &[2], None)));
    assert_eq!(second.get("prompt_token_ids"), None);
}
