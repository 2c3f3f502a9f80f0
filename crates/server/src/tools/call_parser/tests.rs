//! The formats of all families, whole and cut at every position.

use super::*;
use crate::tools::tool_format::ToolFormat;

/// Text, and calls with their arguments joined.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    text: String,
    calls: Vec<(String, String)>,
}

impl Seen {
    fn add(&mut self, segments: Vec<CallSegment>) {
        for segment in segments {
            match segment {
                CallSegment::Text(text) => self.text += &text,
                CallSegment::Call { name } => self.calls.push((name, String::new())),
                CallSegment::Arguments(text) => self.calls.last_mut().expect("a call").1 += &text,
            }
        }
    }
}

fn read(format: ToolFormat, is_parallel: bool, deltas: &[&str]) -> Seen {
    let mut parser = CallParser::new(format.markup(), is_parallel);
    let mut seen = Seen::default();
    for delta in deltas {
        seen.add(parser.push(delta));
    }
    seen.add(parser.finish());
    assert_eq!(parser.calls(), seen.calls.len(), "{deltas:?}");
    seen
}

/// Checks the text whole, character by character, and cut in two at every position.
#[track_caller]
fn check(format: ToolFormat, output: &str, text: &str, calls: &[(&str, &str)]) {
    let own = |(name, arguments): &(&str, &str)| (name.to_string(), arguments.to_string());
    let want = Seen { text: text.to_owned(), calls: calls.iter().map(own).collect() };
    assert_eq!(read(format, true, &[output]), want);
    let characters: Vec<_> =
        output.char_indices().map(|(at, c)| &output[at..at + c.len_utf8()]).collect();
    assert_eq!(read(format, true, &characters), want, "character by character");
    for (at, _) in output.char_indices() {
        let (first, second) = output.split_at(at);
        assert_eq!(read(format, true, &[first, second]), want, "{first:?} {second:?}");
    }
}

const F: &str = r#"{"name": "f", "arguments": {"a": "}\"é", "b": [1, {}]}}"#;
const F_ARGUMENTS: &str = r#"{"a": "}\"é", "b": [1, {}]}"#;

#[test]
fn hermes() {
    let call = format!("<tool_call>\n{F}\n</tool_call>");
    check(ToolFormat::Hermes, &call, "", &[("f", F_ARGUMENTS)]);
    let twice = format!("I look. \n{call}\n{call}\n");
    check(ToolFormat::Hermes, &twice, "I look.", &[("f", F_ARGUMENTS); 2]);
    check(ToolFormat::Hermes, &format!("{call}\n\nDone."), "\n\nDone.", &[("f", F_ARGUMENTS)]);
    check(ToolFormat::Hermes, "a < b <tool_cal", "a < b <tool_cal", &[]);
    check(ToolFormat::Hermes, "just text \n", "just text \n", &[]);
}

#[test]
fn mistral() {
    let calls = format!("[TOOL_CALLS][{F}, {F}]");
    check(ToolFormat::Mistral, &calls, "", &[("f", F_ARGUMENTS); 2]);
    check(ToolFormat::Mistral, &format!("Well.{calls} "), "Well.", &[("f", F_ARGUMENTS); 2]);
    check(ToolFormat::Mistral, "[TOOL_CAL", "[TOOL_CAL", &[]);
}

#[test]
fn llama() {
    let call = r#"{"name": "f", "parameters": {"a": 1}}"#;
    check(ToolFormat::Llama, call, "", &[("f", r#"{"a": 1}"#)]);
    let twice = format!(" {call}; {call}");
    check(ToolFormat::Llama, &twice, "", &[("f", r#"{"a": 1}"#); 2]);
    check(ToolFormat::Llama, "The answer is {}.", "The answer is {}.", &[]);
    check(ToolFormat::Llama, r#"{"answer": 42} yes"#, r#"{"answer": 42} yes"#, &[]);
}

#[test]
fn calls_come_in_many_shapes() {
    let call = |json: &str| format!("<tool_call>{json}</tool_call>");
    let check = |json: &str, arguments| {
        check(ToolFormat::Hermes, &call(json), "", &[("f", arguments)]);
    };
    check(r#"{"arguments": {"a": 1}, "name": "f"}"#, r#"{"a": 1}"#);
    check(r#"{"name":"f"}"#, "{}");
    check(r#"{"name": "f", "arguments": null}"#, "{}");
    check(r#"{"name": "f", "arguments": "{\"a\": 1}"}"#, r#"{"a": 1}"#);
    check(r#"{"type": "function", "name": "f", "parameters": {}, "x": [1]}"#, "{}");
}

#[test]
fn what_is_no_call_stays_text() {
    let same = |text: &str| check(ToolFormat::Hermes, text, text, &[]);
    same(r#"<tool_call>{"nom": "f"}</tool_call>"#);
    same(r#"<tool_call>{"arguments": {"a": 1"#);
}

#[test]
fn arguments_are_given_as_they_come() {
    let mut parser = CallParser::new(ToolFormat::Hermes.markup(), true);
    assert_eq!(parser.push("<tool_call>{\"name\": \"f\", \"arguments\": "), []);
    let begun = [CallSegment::Call { name: "f".into() }, CallSegment::Arguments("{\"a\"".into())];
    assert_eq!(parser.push("{\"a\""), begun);
    assert_eq!(parser.push(": 1}"), [CallSegment::Arguments(": 1}".into())]);
    assert_eq!(parser.push("}</tool_call>"), []);
    assert_eq!((parser.finish(), parser.calls()), (Vec::new(), 1));
}

#[test]
fn only_the_first_call_counts_where_one_is_wanted() {
    let calls = format!("<tool_call>{F}</tool_call><tool_call>{F}</tool_call> text");
    let seen = read(ToolFormat::Hermes, false, &[&calls]);
    assert_eq!((seen.calls.len(), seen.text.as_str()), (1, ""));
}
