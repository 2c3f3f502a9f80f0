//! Examples from files, as tokens of a tokenizer of single bytes.

use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use terrace_model::{ChatTemplate, SpecialTokenTexts, Tokenizer};
use terrace_testkit::TinyModel;
use terrace_tune::data::{
    AnswerForm, Case, CaseSource, CaseTargets, DataError, JsonLines, LongBench, TextEncoder,
    case_lengths,
};

fn encoder(with_template: bool) -> TextEncoder {
    let model = TinyModel::new();
    let tokenizer = Tokenizer::from_file(&model.path().join("tokenizer.json")).expect("it reads");
    let template = tokenizer.chat_template().map(|template| {
        ChatTemplate::new(template, SpecialTokenTexts::of(&tokenizer)).expect("a good template")
    });
    TextEncoder::new(Arc::new(tokenizer), template.map(Arc::new).filter(|_| with_template))
}

fn write(text: &str) -> (TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("data.jsonl");
    std::fs::write(&path, text).expect("it is writable");
    (folder, path)
}

fn open(text: &str) -> Result<JsonLines, DataError> {
    let (_folder, path) = write(text);
    JsonLines::open(&path, encoder(true))
}

fn refusal(text: &str) -> String {
    open(text).err().expect("it is refused").to_string()
}

/// The text of a case's targets.
fn learnt(case: &Case) -> Vec<String> {
    let CaseTargets::Tokens(ranges) = &case.targets else { panic!("it has a class") };
    let text = |tokens: &[u32]| tokens.iter().map(|token| byte(*token)).collect();
    ranges.iter().map(|range| text(&case.tokens[range.clone()])).collect()
}

/// Ids 0 to 2 are special; byte `b` is id `b + 3`.
fn byte(token: u32) -> char {
    match token {
        2 => '.',
        token => char::from(u8::try_from(token - 3).expect("a byte")),
    }
}

#[test]
fn lines_of_every_form_become_cases() {
    let lines = open(concat!(
        "{\"text\": \"abcd\"}\n\n",
        "{\"prompt\": \"say x: \", \"completion\": \"x\"}\n",
        "{\"instruction\": \"add\", \"input\": \"1 2\", \"output\": \"3\"}\n",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, ",
        "{\"role\": \"assistant\", \"content\": \"ho\"}, ",
        "{\"role\": \"user\", \"content\": \"a\"}, ",
        "{\"role\": \"assistant\", \"content\": \"b\"}]}",
    ));
    let lines = lines.expect("four cases");
    let learnt: Vec<Vec<String>> =
        (0..lines.len()).map(|number| learnt(&lines.case(number).expect("a case"))).collect();
    // A completion ends with the token that ends a text.
    let wanted = [&["bcd"][..], &["x."], &["3."], &["ho\n", "b\n"]];
    assert_eq!(learnt, wanted);
}

#[test]
fn labels_have_numbers_in_their_order() {
    let lines = open(
        "{\"text\": \"a\", \"label\": 10}\n{\"text\": \"b\", \"label\": 2}\n\
         {\"text\": \"c\", \"label\": 10}\n",
    );
    let lines = lines.expect("three cases");
    assert_eq!(lines.classes(), ["2", "10"]);
    let classes: Vec<CaseTargets> =
        (0..3).map(|number| lines.case(number).expect("a case").targets).collect();
    assert_eq!(classes, [1, 0, 1].map(CaseTargets::Class));
}

#[test]
fn wrong_lines_are_named() {
    for (text, parts) in [
        ("{\"text\": \"a\"}\n\n{\"text\"", ["line 3", "not JSON"]),
        ("[1]\n", ["line 1", "not an object"]),
        ("{\"text\": \"a\"}\n{\"body\": \"b\"}\n", ["line 2", "it has body"]),
        ("{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\"}\n", ["line 2", "no \"label\""]),
        ("\n\n", ["no lines", ""]),
    ] {
        let error = refusal(text);
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    let (_folder, path) =
        write("{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}\n");
    let lines = JsonLines::open(&path, encoder(false)).expect("its form is right");
    let error = lines.case(0).expect_err("there is no template").to_string();
    assert!(error.contains("line 1") && error.contains("chat template"), "{error}");
    let empty = open("{\"text\": \"\"}\n").expect("its form is right");
    assert!(empty.case(0).expect_err("no targets").to_string().contains("nothing to learn"));
}

const BENCH: &str = r#"[
  {"_id": "1", "domain": "d", "context": "long", "question": "which?", "choice_A": "a",
   "choice_B": "b", "choice_C": "c", "choice_D": "d", "answer": "C", "length": "short"},
  {"_id": "2", "context": "longer", "question": "who?", "choice_A": "a", "choice_B": "b",
   "choice_C": "c", "choice_D": "d", "answer": "A"}
]"#;

#[test]
fn long_bench_asks_for_a_class_or_a_letter() {
    let (_folder, path) = write(BENCH);
    let classes = LongBench::open(&path, encoder(false), AnswerForm::Class).expect("two cases");
    assert_eq!((classes.len(), classes.classes().len()), (2, 4));
    assert_eq!(classes.case(0).expect("a case").targets, CaseTargets::Class(2));
    let letters = LongBench::open(&path, encoder(false), AnswerForm::Letter).expect("two cases");
    assert_eq!(learnt(&letters.case(1).expect("a case")), [" A."]);
    assert_ne!(classes.fingerprint(), letters.fingerprint());
    for (text, part) in [
        (BENCH.replace("\"C\"", "\"E\""), "case 1: its answer is \"E\""),
        (BENCH.replace("\"question\": \"who?\", ", ""), "case 2: missing field `question`"),
        (BENCH.replace(']', ""), "no list of LongBench V2's cases"),
        ("[]".to_owned(), "no cases"),
    ] {
        let (_folder, path) = write(&text);
        let error = LongBench::open(&path, encoder(false), AnswerForm::Class);
        let error = error.err().expect("it is refused").to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// Lengths, and how many cases had to be made tokens for them.
fn lengths(source: &dyn CaseSource, folder: &Path) -> (Vec<usize>, usize) {
    let mut made = 0;
    let lengths = case_lengths(source, Some(folder), &mut || made += 1);
    (lengths.expect("lengths"), made)
}

#[test]
fn lengths_are_kept_until_what_they_depend_on_changes() {
    let metadata = tempfile::tempdir().expect("a temporary folder");
    let folder = metadata.path().join("lengths");
    let lines = open("{\"text\": \"abcd\"}\n{\"text\": \"ab\"}\n").expect("two cases");
    assert_eq!(lengths(&lines, &folder), (vec![3, 1], 2));
    assert_eq!(lengths(&lines, &folder), (vec![3, 1], 0));
    let other = open("{\"text\": \"abcd\"}\n{\"text\": \"abc\"}\n").expect("two cases");
    assert_eq!(lengths(&other, &folder), (vec![3, 2], 2));
    let file = folder.join("case_lengths.json");
    let whole = std::fs::read(&file).expect("it was kept");
    std::fs::write(&file, &whole[..whole.len() / 2]).expect("it is writable");
    assert_eq!(lengths(&other, &folder), (vec![3, 2], 2));
}
