//! What grammars may take, and what ordinary ones do take.

use serde_json::Value;

use super::*;
use crate::guidance::guide_budget::WorkDone;

/// Twenty patterns that one text must match took minutes and 9 GB inside one step.
#[test]
fn twenty_patterns_are_refused_unread() {
    let fixture = Fixture::new();
    let pattern = |n| json!({"type": "string", "pattern": format!(".*a.{{{n}}}")});
    let schema = json!({"allOf": (20..40).map(pattern).collect::<Vec<_>>()});
    let lark = "start: \"f(\" json0 \")\"".to_owned();
    let nested = format!("start: %json {schema}");
    for rule in [
        GrammarRule::JsonSchema(schema.clone()),
        GrammarRule::LarkWithJson { lark, schemas: vec![schema] },
        GrammarRule::Lark(nested),
    ] {
        let error = fixture.guide(rule).err().expect("too many");
        assert!(error.contains("20 expressions") && error.contains("the limit is 4"), "{error}");
    }
}

#[test]
fn ordinary_schemas_stay_far_below_the_limits() {
    let fixture = Fixture::new();
    let text = "The quick brown fox jumps over the lazy dog; ".repeat(40);
    let names: Vec<String> = (0..100).map(|n| format!("property_{n}")).collect();
    let all = |value: Value| -> Value {
        Value::Object(names.iter().map(|name| (name.clone(), value.clone())).collect())
    };
    let mail = r"^\w+([\.-]?\w+)*@\w+([\.-]?\w+)*(\.\w{2,})+$";
    let mail = json!({"type": "string", "pattern": mail, "format": "email", "minLength": 6});
    let link = json!({"type": "string", "pattern": "^https?://", "format": "uri", "maxLength": 99});
    let letters = json!({"type": "string", "pattern": "^[A-Za-z; ]+$", "maxLength": 2000});
    let object = |property: Value| json!({"type": "object", "properties": {"a": property}});
    let optional =
        json!({"type": "object", "properties": all(json!({"type": ["string", "null"]}))});
    for (schema, answer) in [
        (object(json!({"type": "string", "maxLength": 2000})), json!({"a": text})),
        (object(letters), json!({"a": text})),
        (object(mail), json!({"a": "jane.doe@example.com"})),
        (object(link), json!({"a": "https://www.example.com/a/b?d=e#h"})),
        (optional, all(json!("some text"))),
        (json!({"type": "object"}), json!({"a": [1, {"b": text}, null]})),
    ] {
        let guide = fixture.guide(GrammarRule::JsonSchema(schema.clone())).expect("a good schema");
        let ids = fixture.tokenizer.encode(&answer.to_string(), AddSpecial::No).expect("a text");
        let state = guide.start();
        for (count, id) in ids.iter().enumerate() {
            let allowed = state.allowed_after(&ids[..count]).expect("far below the limits");
            assert!(allowed.contains(*id), "token {count} of {answer}");
        }
        let (work, limit) = (state.work(), WorkDone::limit(ids.len(), ids.len() as u64));
        assert!(2 * work.steps < limit.steps, "{work:?} of {limit:?}: {schema}");
        assert!(2 * work.items < limit.items, "{work:?} of {limit:?}: {schema}");
    }
}

#[test]
fn a_request_does_not_depend_on_those_before() {
    let fixture = Fixture::new();
    let schema = json!({"type": "string", "maxLength": 300});
    let ids = fixture.tokenizer.encode("\"a text of some words\"", AddSpecial::No).expect("a text");
    let work = || {
        let guide = fixture.guide(GrammarRule::JsonSchema(schema.clone())).expect("a good schema");
        let state = guide.start();
        state.allowed_after(&ids[..1]).expect("a small grammar");
        state.allowed_after(&ids[..4]).expect("a small grammar");
        state.work()
    };
    let first = work();
    assert!(0 < first.steps, "{first:?}");
    assert_eq!(work(), first);
}

#[test]
fn a_grammar_that_takes_ever_more_ends_with_the_limit() {
    let fixture = Fixture::new();
    let text = "The quick brown fox jumps over the lazy dog, as ever. ".repeat(20);
    let ids = fixture.tokenizer.encode(&text, AddSpecial::No).expect("a text");
    let fault = |rule: GrammarRule| {
        let guide = fixture.guide(rule).expect("it can begin");
        let state = guide.start();
        let failed = (0..ids.len()).find(|&count| state.allowed_after(&ids[..count]).is_err());
        assert!(failed.is_some(), "{:?}", state.work());
        assert!(state.allowed_after(&ids).is_err(), "once it has failed, it has failed");
        state.fault().expect("it has failed").to_string()
    };
    let ambiguous = GrammarRule::Lark("start: start start | \"\" | /[a-zA-Z .,]/".into());
    let ambiguous = fault(ambiguous);
    assert!(ambiguous.contains("its rules can be read in more than"), "{ambiguous}");
    let look_back = fault(GrammarRule::Regex("(.*a.{60}|.*b.{70}|.*c.{80})*".into()));
    assert!(look_back.contains("its expressions"), "{look_back}");
}

#[test]
fn gbnf_is_followed() {
    let fixture = Fixture::new();
    let lark = |gbnf: &str| GrammarRule::Lark(gbnf_to_lark(gbnf).expect("a good grammar"));
    let list = "root ::= item (\", \" item)*\nitem ::= [a-z]+ | [0-9]{2,3}\n";
    fixture.check(lark(list), &["ab, 12", "a", "123, x"], &["a,b", "1", "1234", "a, "]);
    // One word may begin another, and some may be empty.
    let ends = "root ::= ws (\"xy\" \"1\" | [a-z] [a-z] \"2\") ws\nws ::= | \" \"";
    fixture.check(lark(ends), &["xy1", "xy2", " ab2 "], &["ab1", "xy", "  xy1"]);
    fixture.check(
        lark(JSON_GBNF),
        &[r#"{}"#, r#"{"a": [1, -2.5, "\u00e9\n", {}], "b": null}"#, r#"{ "":true}"#],
        &[r#"[]"#, r#"{"a": 01}"#, r#"{"a"}"#, r#"{"a": "\x"}"#],
    );
}

/// JSON, in the manner of llama.cpp's examples.
const JSON_GBNF: &str = r#"
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
    string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9]{1,15})? ws
ws     ::= | " " | "\n" [ \t]{0,20} # blanks
"#;
