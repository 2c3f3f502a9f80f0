//! Fields of a request are read by type, and what is left over is refused.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::*;

/// The fields of a body.
pub fn fields(body: impl ToString) -> Fields {
    Fields::parse(body.to_string().as_bytes()).expect("an object")
}

/// What is taken of a body whose every field must be taken.
pub fn taken<T>(
    body: impl ToString,
    take: impl FnOnce(&mut Fields) -> ApiResult<T>,
) -> ApiResult<T> {
    let mut fields = Fields::parse(body.to_string().as_bytes())?;
    let found = take(&mut fields)?;
    fields.finish()?;
    Ok(found)
}

thread_local! {
    /// The names that were looked for on this thread, for the test that all are documented.
    pub static TAKEN: RefCell<BTreeSet<String>> = RefCell::default();
}

#[track_caller]
fn complaint<T: std::fmt::Debug>(result: ApiResult<T>) -> String {
    let json: Value = serde_json::from_str(&result.unwrap_err().to_json()).unwrap();
    json["error"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn a_syntax_error_says_where() {
    let message = complaint(Fields::parse(b"{\"prompt\": \"a\",\n \"n\" 2}"));
    assert!(message.contains("line 2 column"), "{message}");
}

#[test]
fn a_body_that_is_no_object_is_refused() {
    assert_eq!(complaint(Fields::parse(b"[1]")), "the body must be a JSON object, not a list");
}

#[test]
fn a_wrong_type_names_the_field_and_the_value() {
    let message = complaint(fields(r#"{"temperature": "hot"}"#).take::<f32>("temperature"));
    assert_eq!(message, "temperature must be a number, not a string (\"hot\")");
}

#[test]
fn null_is_absent() {
    let mut given = fields(r#"{"n": null, "later": null}"#);
    assert_eq!(given.take::<usize>("n"), Ok(None));
    assert_eq!(given.finish(), Ok(()));
}

#[test]
fn what_nobody_took_is_refused() {
    let mut given = fields(r#"{"n": 1, "temprature": 0}"#);
    assert_eq!(given.take::<usize>("n"), Ok(Some(1)));
    assert_eq!(complaint(given.finish()), "unknown field \"temprature\"");
}

#[test]
fn texts_come_alone_or_in_a_list() {
    assert_eq!(fields(r#"{"stop": "a"}"#).take_texts("stop"), Ok(Some(vec!["a".to_owned()])));
    assert_eq!(
        fields(r#"{"stop": ["a", "b"]}"#).take_texts("stop"),
        Ok(Some(vec!["a".to_owned(), "b".to_owned()]))
    );
    complaint(fields(r#"{"stop": 3}"#).take_texts("stop"));
}

#[test]
fn flags_may_be_words() {
    assert_eq!(fields(r#"{"stream": "true"}"#).take_flag("stream"), Ok(Some(true)));
    assert_eq!(fields(r#"{"stream": false}"#).take_flag("stream"), Ok(Some(false)));
    complaint(fields(r#"{"stream": "yes"}"#).take_flag("stream"));
}

#[test]
fn aliases_must_agree() {
    let names = ["max_completion_tokens", "max_tokens"];
    let mut same = fields(r#"{"max_tokens": 4, "max_completion_tokens": 4}"#);
    assert_eq!(same.take_alias::<usize>(&names), Ok(Some(4)));
    let mut different = fields(r#"{"max_tokens": 4, "max_completion_tokens": 5}"#);
    assert_eq!(
        complaint(different.take_alias::<usize>(&names)),
        "max_tokens and max_completion_tokens mean the same but differ"
    );
}

#[test]
fn a_refusal_has_a_reason_and_lets_empty_values_pass() {
    assert_eq!(fields(r#"{"tools": []}"#).refuse("tools", "no reason"), Ok(()));
    assert_eq!(
        complaint(fields(r#"{"tools": [{}]}"#).refuse("tools", "the reason")),
        "tools is not supported: the reason"
    );
}

#[test]
fn long_values_are_cut_in_messages() {
    let json = format!(r#"{{"n": "{}"}}"#, "é".repeat(500));
    let message = complaint(fields(&json).take::<usize>("n"));
    assert!(message.chars().count() < 120, "{message}");
}

#[test]
fn a_whole_number_is_in_its_range_before_it_is_used() {
    for (json, want) in [
        (
            "1000000000000",
            "n_predict is 1000000000000: it must be a whole number from -1 to 2147483647",
        ),
        ("1.5", "n_predict is 1.5: it must be a whole number from -1 to 2147483647"),
        ("1e400", "n_predict is 1e400: it must be a whole number from -1 to 2147483647"),
        ("true", "n_predict must be a whole number, not true"),
        ("[1]", "n_predict must be a whole number, not a list"),
    ] {
        let taken = fields(format!(r#"{{"n_predict": {json}}}"#)).take::<i64>("n_predict");
        assert_eq!(complaint(taken), want);
    }
    assert_eq!(fields(r#"{"n_predict": 5.0}"#).take::<i64>("n_predict"), Ok(Some(5)));
}

#[test]
fn lists_and_values_are_counted_before_they_are_read() {
    let long = format!(r#"{{"stop": [{}"a"]}}"#, r#""a","#.repeat(16));
    assert_eq!(complaint(fields(&long).take_texts("stop")), "stop has 17 items, the limit is 16");
    let many = format!(r#"{{"tools": [[{}0]]}}"#, "0,".repeat(70_000));
    let message = complaint(fields(&many).take::<Vec<Value>>("tools"));
    assert_eq!(message, "tools has 70001 values in all, the limit is 65536");
    let deep = format!(r#"{{"tools": {}{}}}"#, "[".repeat(200), "]".repeat(200));
    let message = complaint(fields(&deep).take::<Value>("tools"));
    assert_eq!(message, "tools is nested too deeply; the limit is 128 levels");
}

#[test]
fn a_field_that_is_given_twice_is_refused() {
    let message = complaint(Fields::parse(br#"{"n": 1, "n": 2}"#));
    assert_eq!(message, "the body: \"n\" is given twice");
    let many: String = (0..600).map(|field| format!(r#""f{field}": 0,"#)).collect();
    let message = complaint(Fields::parse(format!("{{{many}\"n\": 1}}").as_bytes()));
    assert_eq!(message, "the body: there are more than 512 fields");
}

#[test]
fn fields_within_are_named_with_their_path() {
    let mut outer = fields(r#"{"a": {"b": {"n": "x"}, "c": 1}}"#);
    let mut a = outer.take_object("a").unwrap().unwrap();
    let mut b = a.take_object("b").unwrap().unwrap();
    let message = complaint(b.take::<usize>("n"));
    assert_eq!(message, "a.b.n must be a whole number, not a string (\"x\")");
    assert_eq!(complaint(a.finish()), "unknown field \"a.c\"");
}
