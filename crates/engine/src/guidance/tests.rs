//! Grammars walked along the default model's vocabulary.

use serde_json::json;
use terrace_model::{AddSpecial, GgufFile, SpecialTokens, Tokenizer};

use super::*;

mod limits;

struct Fixture {
    tokenizer: Tokenizer,
    maker: GuideMaker,
}

/// A few logits more than there are tokens, as in models that pad.
const PADDING: usize = 7;

impl Fixture {
    fn new() -> Self {
        let file = GgufFile::open(&terrace_testkit::smollm2_gguf()).expect("the default model");
        let tokenizer = Tokenizer::from_gguf(&file).expect("its tokenizer");
        let vocab = tokenizer.vocab_size() + PADDING;
        let maker =
            GuideMaker::new(&tokenizer, tokenizer.eos(), vocab, None).expect("it has an end");
        Fixture { tokenizer, maker }
    }

    fn guide(&self, rule: GrammarRule) -> Result<Guide, String> {
        self.maker.guide(&Grammar { option: "rule", rule }).map_err(|error| error.to_string())
    }

    /// How many of the text's tokens are allowed one after the other, and whether the output may
    /// end after them.
    fn walk(&self, guide: &Guide, text: &str) -> (usize, bool) {
        let ids = self.tokenizer.encode(text, AddSpecial::No).expect("a text");
        let state = guide.start();
        let allowed = |count: usize| state.allowed_after(&ids[..count]).expect("a small grammar");
        let count = (0..ids.len()).find(|&count| !allowed(count).contains(ids[count]));
        let count = count.unwrap_or(ids.len());
        let ends = self.tokenizer.eos().iter().all(|&eos| allowed(count).contains(eos));
        (ids.len() - count, ends)
    }

    #[track_caller]
    fn check(&self, rule: GrammarRule, accepted: &[&str], refused: &[&str]) {
        let guide = self.guide(rule).expect("a good grammar");
        for text in accepted {
            assert_eq!(self.walk(&guide, text), (0, true), "{text:?}");
        }
        for text in refused {
            assert_ne!(self.walk(&guide, text), (0, true), "{text:?}");
        }
    }
}

#[test]
fn texts_are_read_as_their_grammar_says() {
    let fixture = Fixture::new();
    let schema = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
        "required": ["name", "age"],
        "additionalProperties": false,
    });
    fixture.check(
        GrammarRule::JsonSchema(schema),
        &[r#"{"name": "Zoë 🙂 \"Q\"", "age": 42}"#, "{\n  \"name\": \"\",\n  \"age\": 0\n}"],
        &[r#"{"name": "a", "age": -1}"#, r#"{"age": 1, "name": "a"}"#, r#"{"name": "a"}"#, ""],
    );
    fixture.check(GrammarRule::json_object(), &["{}", r#"{"a": [1, null]}"#], &["[]", "{}}"]);
    fixture.check(
        GrammarRule::Regex("[a-c]+[0-9]{2}".into()),
        &["ab12"],
        &["ab1", "ab123", " ab12"],
    );
    let texts = ["yes", "yes, of course", "a\"\\\né"].map(str::to_owned).to_vec();
    fixture.check(
        GrammarRule::Choice(texts),
        &["yes", "yes, of course", "a\"\\\né"],
        &["no", "ye"],
    );
    let sum = "start: NUMBER (\"+\" NUMBER)*\nNUMBER: /[0-9]+/".to_owned();
    fixture.check(GrammarRule::Lark(sum), &["1", "1+22+3"], &["1+", "+1"]);
    let lark = "start: \"f(\" json0 \", \" json1 \")\"".to_owned();
    // Each schema is a document of its own, so what it refers to is in itself.
    let yes = json!({"$ref": "#/$defs/yes", "$defs": {"yes": {"type": "boolean"}}});
    let schemas = vec![yes, json!({"type": "array", "items": {"type": "null"}})];
    let rule = GrammarRule::LarkWithJson { lark, schemas };
    fixture.check(rule, &["f(true, [null, null])"], &["f(1, [])", "f(true)"]);
}

#[test]
fn special_tokens_are_no_text() {
    let fixture = Fixture::new();
    let guide = fixture.guide(GrammarRule::Regex("(.|\n)*".into())).expect("a good grammar");
    let allowed = guide.start().allowed_after(&[]).expect("a small grammar");
    let vocab = fixture.tokenizer.vocab_size() as u32;
    for id in 0..vocab + PADDING as u32 {
        let bytes = fixture.tokenizer.token_bytes(id).unwrap_or_default();
        // A text may begin with any token whose bytes begin characters, or go on with the others.
        let is_text = !bytes.is_empty() && !fixture.tokenizer.is_special(id);
        let begins = is_text && begins_text(&bytes);
        let is_end = fixture.tokenizer.eos().contains(&id);
        assert_eq!(allowed.contains(id), begins || is_end, "token {id}: {bytes:?}");
    }
}

#[test]
fn a_grammar_may_name_a_special_token() {
    let fixture = Fixture::new();
    let vocab = fixture.tokenizer.vocab_size() as u32;
    let special = (0..vocab).find(|&id| fixture.tokenizer.is_special(id)).expect("one");
    let rule = GrammarRule::Lark(format!("start: <[{special}]> \"yes\""));
    let guide = fixture.guide(rule).expect("a good grammar");
    let state = guide.start();
    let allowed = state.allowed_after(&[]).expect("a small grammar");
    let first = (0..vocab).filter(|&id| allowed.contains(id));
    assert_eq!(first.collect::<Vec<_>>(), [special]);
    let allowed = state.allowed_after(&[special]).expect("a small grammar");
    let yes = fixture.tokenizer.encode("yes", AddSpecial::No).expect("a text");
    assert!(allowed.contains(yes[0]) && !allowed.contains(special));
}

#[test]
fn a_complete_grammar_leaves_only_the_end() {
    let fixture = Fixture::new();
    let guide = fixture.guide(GrammarRule::Choice(vec!["yes".into()])).expect("a good grammar");
    let ids = fixture.tokenizer.encode("yes", AddSpecial::No).expect("a text");
    let allowed = guide.start().allowed_after(&ids).expect("a small grammar");
    let left = (0..fixture.tokenizer.vocab_size() as u32).filter(|&id| allowed.contains(id));
    assert_eq!(left.collect::<Vec<_>>(), fixture.tokenizer.eos());
}

#[test]
fn a_state_reads_on_from_where_it_was() {
    let fixture = Fixture::new();
    let guide = fixture.guide(GrammarRule::json_object()).expect("a good grammar");
    let text = r#"{"a": {"b": [1, 2, "three"]}}"#;
    let ids = fixture.tokenizer.encode(text, AddSpecial::No).expect("a text");
    let state = guide.start();
    for count in 0..=ids.len() {
        let at_once = guide.start().allowed_after(&ids[..count]).expect("a small grammar");
        for _ in 0..2 {
            assert_eq!(state.allowed_after(&ids[..count]).as_ref(), Ok(&at_once), "{count}");
        }
    }
    let read = fixture.tokenizer.decode(&ids, SpecialTokens::Keep).expect("known ids");
    assert_eq!(read, text);
}

#[test]
fn bad_grammars_say_what_is_wrong() {
    let fixture = Fixture::new();
    #[track_caller]
    fn check(fixture: &Fixture, rule: GrammarRule, want: &str) {
        let error = fixture.guide(rule).err().expect("a bad grammar");
        assert!(error.starts_with("rule cannot be followed: "), "{error}");
        assert!(error.contains(want), "{want:?} is not in {error:?}");
        assert!(!error.contains("backtrace"), "{error}");
    }
    let schema = |schema| GrammarRule::JsonSchema(schema);
    check(&fixture, GrammarRule::Regex("(a".into()), "unclosed group");
    check(&fixture, GrammarRule::Lark("start: foo".into()), "1(8): unknown name: \"foo\"");
    check(&fixture, GrammarRule::Lark(String::new()), "no start rule");
    check(&fixture, schema(json!({"type": "objekt"})), "Invalid type: objekt");
    check(&fixture, schema(json!({"not": {"type": "string"}})), "keyword \"not\" at $ is not");
    check(&fixture, schema(json!({"$ref": "http://a.b/c"})), "http://a.b/c");
    check(&fixture, schema(json!({"$ref": "#"})), "no answer can begin with it");
    check(&fixture, schema(json!("text")), "schema must be an object");
    check(&fixture, schema(json!({"minimum": 5, "maximum": 2, "type": "integer"})), "minimum (5)");
    check(&fixture, GrammarRule::Choice(Vec::new()), "at least one text");
}

/// Each of them takes minutes, all memory or the stack in a compiler without limits.
#[test]
fn hostile_grammars_come_to_an_end() {
    let fixture = Fixture::new();
    let nested = |open: &str, middle: &str, close: &str, depth: usize| {
        format!("{}{middle}{}", open.repeat(depth), close.repeat(depth))
    };
    let chain = |name: &str, rules: usize| {
        let rule = |index| format!("{name}{index}:{name}{}\n", index + 1);
        let rules: String = (0..rules).map(rule).collect();
        format!("start: {name}0\n{rules}").trim_end().to_owned() + "|\"x\""
    };
    let hostile = [
        GrammarRule::Regex("a?".repeat(30_000)),
        GrammarRule::Regex("a?".repeat(1_000)),
        GrammarRule::Regex(nested("(", "a", ")", 2_000)),
        GrammarRule::Regex("((a{0,1000}){0,1000}){0,1000}".into()),
        GrammarRule::Regex(".*a.{12}b|.*c.{13}d|.*e.{14}f".into()),
        GrammarRule::Lark(format!("start: {}", nested("(", "\"a\"", ")", 8_000))),
        GrammarRule::Lark(chain("a", 1_300)),
        GrammarRule::Lark(chain("A", 1_300)),
        GrammarRule::Lark("start: start start | \"\" | \"a\"".into()),
        GrammarRule::Lark("start: \"a\" start".into()),
        GrammarRule::Choice((0..100_000).map(|i| i.to_string()).collect()),
        GrammarRule::JsonSchema(json!({"type": "array", "minItems": 1_000_000_000})),
        GrammarRule::JsonSchema(json!({"type": "string", "pattern": "a?".repeat(20_000)})),
        GrammarRule::JsonSchema(json!({"enum": (0..5_000).collect::<Vec<_>>()})),
    ];
    for (index, rule) in hostile.into_iter().enumerate() {
        let Ok(guide) = fixture.guide(rule) else { continue };
        let (state, mut output) = (guide.start(), Vec::new());
        let mut rng = terrace_testkit::Rng::new(index as u64);
        for _ in 0..20 {
            // It may also find out late that it is too large.
            let Ok(allowed) = state.allowed_after(&output) else { break };
            let vocab = fixture.tokenizer.vocab_size() as u32;
            let next: Vec<u32> = (0..vocab).filter(|&id| allowed.contains(id)).collect();
            let next = *rng.pick(&next);
            if fixture.tokenizer.eos().contains(&next) {
                break;
            }
            output.push(next);
        }
    }
}

/// Whether some text begins with these bytes, which may end inside a character.
fn begins_text(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    }
}
