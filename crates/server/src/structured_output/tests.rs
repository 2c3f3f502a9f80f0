//! Structured outputs as clients request them.

use serde_json::{Value, json};
use terrace_engine::guidance::GrammarRule;

use super::*;

use crate::fields::tests::taken;

fn take(body: &Value) -> ApiResult<Option<Grammar>> {
    taken(body, take_grammar)
}

#[track_caller]
fn check(body: Value, option: &'static str, rule: GrammarRule) {
    assert_eq!(take(&body), Ok(Some(Grammar { option, rule })), "{body}");
}

#[track_caller]
fn check_format(format: Value, option: &'static str, rule: GrammarRule) {
    check(json!({"response_format": format}), option, rule);
}

#[track_caller]
fn check_nothing(body: Value) {
    assert_eq!(take(&body), Ok(None), "{body}");
}

#[track_caller]
fn check_refused(body: Value, param: &str, want: &str) {
    let error: Value = serde_json::from_str(&take(&body).unwrap_err().to_json()).unwrap();
    let message = error["error"]["message"].as_str().unwrap();
    assert_eq!(error["error"]["param"], param, "{body}: {message}");
    assert!(message.contains(want), "{message}");
    for word in ["struct", "enum", "expected", "usize", "variant"] {
        let sent = body.to_string().contains(word) || param.contains(word);
        assert!(sent || !message.contains(word), "{message}");
    }
}

#[track_caller]
fn check_format_refused(format: Value, param: &str, want: &str) {
    check_refused(json!({"response_format": format}), param, want);
}

fn list() -> Value {
    json!({"type": "array"})
}

fn list_rule() -> GrammarRule {
    GrammarRule::JsonSchema(list())
}

#[test]
fn openai_asks_for_json() {
    check_format(json!({"type": "json_object"}), "response_format", GrammarRule::json_object());
    check_format(
        json!({"type": "json_schema", "json_schema":
            {"name": "list", "strict": true, "schema": list()}}),
        "response_format.json_schema.schema",
        list_rule(),
    );
    check_nothing(json!({"response_format": {"type": "text"}}));
    check_nothing(json!({"response_format": null}));
    check_nothing(json!({}));
}

#[test]
fn schemas_in_other_vendors_fields_are_taken() {
    for (format, option) in [
        (json!({"type": "json_object", "schema": list()}), "response_format.schema"),
        (json!({"type": "json_schema", "schema": list()}), "response_format.schema"),
        (json!({"type": "json_schema", "json_schema": list()}), "response_format.json_schema"),
        (
            json!({"type": "json_schema", "json_schema": list().to_string()}),
            "response_format.json_schema",
        ),
        (json!({"json_schema": {"schema": list()}}), "response_format.json_schema.schema"),
        (json!({"type": "json_object", "value": list()}), "response_format.value"),
        (json!({"type": "json", "value": list()}), "response_format.value"),
        (
            json!({"type": "json_schema", "name": "list", "strict": false, "schema": list()}),
            "response_format.schema",
        ),
    ] {
        check_format(format, option, list_rule());
    }
    check_format(json!("json_object"), "response_format", GrammarRule::json_object());
    let regex = || GrammarRule::Regex("a+".into());
    check_format(json!({"type": "regex", "value": "a+"}), "response_format.value", regex());
    check_format(json!({"type": "regex", "regex": "a+"}), "response_format.regex", regex());
    let lark = || GrammarRule::Lark("start: \"a\"".into());
    let format = json!({"type": "grammar", "grammar": "start: \"a\""});
    check_format(format, "response_format.grammar", lark());
}

#[test]
fn a_schema_that_is_not_there_is_not_dropped() {
    let path = "response_format.json_schema.schema";
    let named = |named: Value| json!({"type": "json_schema", "json_schema": named});
    check_format_refused(named(json!({"name": "x"})), path, "is missing");
    check_format_refused(named(json!({"name": "x", "schema": null})), path, "is missing");
    check_format_refused(named(json!(null)), path, "is missing");
    check_format_refused(json!({"type": "json_schema"}), path, "is missing");
    let misspelt = json!({"name": "x", "shema": {"type": "array"}});
    check_format_refused(named(misspelt), "response_format.json_schema.shema", "unknown field");
    let misspelt = json!({"type": "json_object", "shema": {"type": "array"}});
    check_format_refused(misspelt, "response_format.shema", "unknown field");
    let text = json!({"type": "text", "schema": {"type": "array"}});
    check_format_refused(text, "response_format.schema", "unknown field");
    let twice = json!({"type": "json_schema", "schema": {}, "json_schema": {"schema": {}}});
    check_format_refused(twice, path, "give one schema");
    let number = named(json!({"schema": 7}));
    check_format_refused(number, path, "must be a JSON schema, not a number");
    let strict = named(json!({"schema": {}, "strict": "yes"}));
    check_format_refused(strict, "response_format.json_schema.strict", "must be true or false");
    check_format_refused(json!({"type": "regex"}), "response_format.regex", "is missing");
    check_format_refused(
        json!({"type": "grammar", "grammar": 7}),
        "response_format.grammar",
        "string",
    );
    check_format_refused(json!({"type": 7}), "response_format.type", "must be a string");
    check_format_refused(json!({}), "response_format.type", "is missing");
    check_format_refused(json!([]), "response_format", "must be an object");
}

#[test]
fn strict_closes_objects() {
    let inner = json!({"type": "object", "properties": {"b": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {"a": inner}});
    let rule = |strict: Value| {
        let format = json!({"type": "json_schema", "json_schema":
            {"name": "x", "strict": strict, "schema": schema}});
        take(&json!({"response_format": format})).unwrap().unwrap().rule
    };
    let GrammarRule::JsonSchema(closed) = rule(json!(true)) else { panic!("a schema") };
    assert_eq!(closed["additionalProperties"], json!(false));
    assert_eq!(closed["properties"]["a"]["additionalProperties"], json!(false));
    for open in [json!(false), json!(null)] {
        assert_eq!(rule(open), GrammarRule::JsonSchema(schema.clone()));
    }
}

#[test]
fn grammars_come_in_two_notations() {
    let rule = GrammarRule::Lark("start: W_ROOT\nW_ROOT: \"a\"\n".into());
    let gbnf = "root ::= \"a\"";
    check(json!({"guided_grammar": gbnf}), "guided_grammar", rule.clone());
    check(json!({"grammar": gbnf}), "grammar", rule.clone());
    let outputs = json!({"structured_outputs": {"grammar": gbnf}});
    check(outputs, "structured_outputs.grammar", rule.clone());
    check_format(json!({"type": "grammar", "value": gbnf}), "response_format.value", rule);
    check_refused(
        json!({"guided_grammar": "root ::= \"a\"\n  | x"}),
        "guided_grammar",
        "is not valid GBNF: line 2, column 5: there is no rule \"x\"",
    );
}

#[test]
fn vllm_asks_in_two_spellings() {
    let texts = || vec!["a".to_owned(), "b".to_owned()];
    for (name, value, rule) in [
        ("json", list(), list_rule()),
        ("json", json!(list().to_string()), list_rule()),
        ("regex", json!("a+"), GrammarRule::Regex("a+".into())),
        ("choice", json!(texts()), GrammarRule::Choice(texts())),
        ("grammar", json!("start: \"a\""), GrammarRule::Lark("start: \"a\"".into())),
    ] {
        let grammar = take(&json!({"structured_outputs": {name: value}})).unwrap().unwrap();
        assert_eq!(grammar.option, format!("structured_outputs.{name}"));
        assert_eq!(grammar.rule, rule);
        let old = format!("guided_{name}");
        let grammar = take(&json!({&old: value})).unwrap().unwrap();
        assert_eq!((grammar.option, grammar.rule), (old.as_str(), rule));
    }
}

#[test]
fn llama_cpp_asks_in_two_fields() {
    check(json!({"json_schema": list()}), "json_schema", list_rule());
    let lark = GrammarRule::Lark("start: \"a\"".into());
    check(json!({"grammar": "start: \"a\""}), "grammar", lark);
}

#[test]
fn what_makes_no_sense_is_refused() {
    check_format_refused(json!({"type": "xml"}), "response_format.type", "\"xml\"");
    check_refused(json!({"guided_json": "{"}), "guided_json", "is not valid JSON");
    check_refused(json!({"guided_choice": [1]}), "guided_choice[0]", "must be a string");
    check_refused(json!({"guided_choice": "a"}), "guided_choice", "must be a list, not a string");
    check_refused(json!({"guided_regex": {}}), "guided_regex", "must be a string, not an object");
    check_refused(
        json!({"structured_outputs": {"regex": "a", "choice": ["b"]}}),
        "structured_outputs",
        "must have one of",
    );
    check_refused(json!({"structured_outputs": {}}), "structured_outputs", "must have one of");
    let unknown = json!({"structured_outputs": {"regex": "a", "xml": 1}});
    check_refused(unknown, "structured_outputs.xml", "unknown field");
    check_refused(
        json!({"response_format": {"type": "json_object"}, "guided_regex": "a"}),
        "guided_regex",
        "response_format and guided_regex both say",
    );
}
