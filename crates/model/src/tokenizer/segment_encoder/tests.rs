//! Word by word against the `tokenizers` crate's own way, which takes the whole text at once.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::json;
use tokenizers::AddedToken;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

use super::*;
use crate::gguf::GgufFile;
use crate::tokenizer::byte_level;
use crate::tokenizer::sentence_piece::{self, ScoredPiece, Settings};
use crate::tokenizer::split::SplitRule;

/// The default model's vocabulary and merges.
static SMOLLM2: LazyLock<(Vec<String>, Vec<String>)> = LazyLock::new(|| {
    let file = GgufFile::open(&terrace_testkit::smollm2_gguf()).expect("the default model");
    let texts = |key| {
        let texts = file.require::<Vec<&str>>(key).expect("a vocabulary");
        texts.into_iter().map(str::to_owned).collect()
    };
    (texts("tokenizer.ggml.tokens"), texts("tokenizer.ggml.merges"))
});

const RULES: [&str; 9] = [
    "gpt-2",
    "smollm",
    "llama-bpe",
    "chatglm-bpe",
    "qwen2",
    "tekken",
    "deepseek-llm",
    "deepseek-coder",
    "deepseek-v3",
];

/// All kinds of tokenizers, each with its name.
static TOKENIZERS: LazyLock<Vec<(&str, Tokenizer)>> = LazyLock::new(|| {
    let mut tokenizers: Vec<_> = RULES.iter().map(|&rule| (rule, byte_level(rule))).collect();
    tokenizers.extend([
        ("sentence piece", sentence_piece(true)),
        ("sentence piece without a space in front", sentence_piece(false)),
        ("normal form C", with_json(json!({ "normalizer": { "type": "NFC" } }))),
        (
            "digits together",
            with_json(json!({ "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [
                    { "type": "Digits", "individual_digits": false },
                    { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true },
                ],
            }})),
        ),
        ("space at the start", with_metaspace("first")),
        ("space always", with_metaspace("always")),
        ("no space", with_metaspace("never")),
    ]);
    tokenizers
});

fn byte_level(rule: &str) -> Tokenizer {
    let (tokens, merges) = &*SMOLLM2;
    let mut tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    let merges: Vec<&str> = merges.iter().map(String::as_str).collect();
    let rule = SplitRule::by_name(rule).expect("a known rule");
    // This vocabulary lacks some bytes; those that take whole words have all of them.
    let alphabet: Vec<String> = ByteLevel::alphabet().iter().map(char::to_string).collect();
    if rule.ignore_merges {
        let missing = alphabet.iter().filter(|byte| !tokens.contains(&byte.as_str()));
        tokens.extend(missing.map(String::as_str).collect::<Vec<_>>());
    }
    let mut tokenizer = byte_level::build(&tokens, &merges, rule).expect("a good vocabulary");
    tokenizer.add_tokens(&added());
    tokenizer
}

/// Tokens of every kind but single words.
fn added() -> [AddedToken; 6] {
    [
        AddedToken::from("<|im_start|>", true).normalized(false),
        AddedToken::from("<|im_end|>", true).normalized(false),
        AddedToken::from("<l>", true).normalized(false).lstrip(true),
        AddedToken::from("<r>", true).normalized(false).rstrip(true),
        AddedToken::from("a b", false).normalized(true),
        AddedToken::from("中中", false).normalized(true),
    ]
}

/// The default model's plain words, with `▁` for spaces.
fn sentence_piece(space_prefix: bool) -> Tokenizer {
    let (tokens, _) = &*SMOLLM2;
    let is_plain = |text: &String| text.replace('Ġ', " ").is_ascii();
    let words: Vec<String> =
        tokens.iter().filter(|&text| is_plain(text)).map(|text| text.replace('Ġ', "▁")).collect();
    let mut texts = vec!["<unk>".to_owned(), "▁".to_owned(), "▁▁".to_owned(), "中".to_owned()];
    texts.extend((0..=255u8).map(|byte| format!("<0x{byte:02X}>")));
    texts.extend(words.iter().filter(|text| *text != "▁" && *text != "▁▁").cloned());
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let is_piece = |text: &str| text != "<unk>" && !text.starts_with("<0x");
    let pieces: Vec<ScoredPiece<'_>> = texts
        .iter()
        .enumerate()
        .filter(|(_, text)| is_piece(text))
        .map(|(index, text)| ScoredPiece { text, score: -(index as f64) })
        .collect();
    let settings = Settings { unknown: Some("<unk>"), space_prefix };
    let mut tokenizer =
        sentence_piece::build(&texts, &pieces, &settings).expect("a good vocabulary");
    tokenizer.add_tokens(&added());
    tokenizer
}

/// The default model's tokenizer as `tokenizer.json` has it, with other parts.
fn with_json(parts: Value) -> Tokenizer {
    changed(&byte_level("gpt-2"), parts)
}

fn with_metaspace(prepend_scheme: &str) -> Tokenizer {
    let metaspace = json!({
        "type": "Metaspace", "replacement": "▁", "prepend_scheme": prepend_scheme, "split": false,
    });
    let parts = json!({ "normalizer": null, "pre_tokenizer": metaspace });
    changed(&sentence_piece(false), parts)
}

fn changed(tokenizer: &Tokenizer, parts: Value) -> Tokenizer {
    let mut json = serde_json::to_value(tokenizer).expect("tokenizers are JSON");
    for (name, part) in parts.as_object().expect("parts with names") {
        json[name] = part.clone();
    }
    Tokenizer::from_bytes(json.to_string()).expect("a good tokenizer")
}

/// With the smallest windows that are allowed.
fn encoder(name: &str, tokenizer: &Tokenizer) -> SegmentEncoder {
    let encoder = SegmentEncoder::new(tokenizer);
    let mut encoder = encoder.unwrap_or_else(|| panic!("{name} does not work word by word"));
    encoder.window = min_window(encoder.longest);
    encoder
}

#[track_caller]
fn check(name: &str, tokenizer: &Tokenizer, encoder: &SegmentEncoder, text: &str) {
    let want = tokenizer.encode_fast(text, false).expect("the crate encodes");
    let mut ids = Ids::new(usize::MAX);
    encoder.encode(tokenizer, text, &mut ids).expect("encodes");
    let got = ids.into_vec();
    let same = got.iter().zip(want.get_ids()).take_while(|(a, b)| a == b).count();
    assert!(got == want.get_ids(), "{name}: the first {same} ids of {text:?} are the same");
    assert!(encoder.least_tokens(text) <= got.len(), "{name}: {text:?}");
}

#[test]
fn segments_give_the_ids_of_the_whole() {
    let words = "The quick brown fox isn't over_the lazy dog's 12,345 bones, IS HE? ";
    let one_word = words.replace(|c: char| !c.is_ascii_alphabetic(), "");
    let runs = [
        "a",
        " ",
        "\n",
        "\t ",
        "\r\n",
        " \n ",
        "中",
        "🙂",
        "e\u{301}",
        "\u{301}",
        "1",
        "'s",
        "▁",
        "\u{3000}",
        "\u{200d}",
        "\0",
        "\u{4}",
        "a\u{4}",
        "\u{fffd}",
        "ab",
        "-",
        "<|im_end|>",
        "<|im_",
        " <l>",
        "<r> ",
        "a b",
        "中中",
    ];
    for (name, tokenizer) in TOKENIZERS.iter() {
        let encoder = encoder(name, tokenizer);
        check(name, tokenizer, &encoder, "");
        check(name, tokenizer, &encoder, &words.repeat(200));
        check(name, tokenizer, &encoder, &one_word.repeat(200));
        for run in runs {
            for times in [1, 7, 1500] {
                let run = run.repeat(times);
                check(name, tokenizer, &encoder, &run);
                check(name, tokenizer, &encoder, &format!("x{run}y {run}\n{run}"));
            }
        }
    }
}

/// Texts that tokenizers find hard.
fn hard_text() -> impl Strategy<Value = String> {
    let runs = prop::sample::select(vec![
        "a",
        " ",
        "\n",
        "\t",
        "\r\n",
        "中",
        "🙂",
        "\u{301}",
        "7",
        "'",
        "▁",
        "\u{3000}",
        "é",
        ".",
        "/",
        "A",
        "ß",
        "\u{200d}",
        "ſ",
        "\u{4}",
        "\u{50000}",
        "가",
        "ᄀ",
        "²",
        "\u{1F468}\u{200D}\u{1F469}",
        "ab",
        "a b",
    ]);
    let tokens = prop::sample::select(vec![
        "<|im_start|>",
        "<|im_end|>",
        "<|im_",
        "<l>",
        "<r>",
        "</s>",
        "<0x0A>",
        "中中",
        "don't ",
        " the",
        "The",
        "'LL",
        " 1234",
        "http://",
        "getElementById",
    ]);
    let fragment = prop_oneof![
        (runs, prop_oneof![3 => 1..4usize, 1 => 1..1500usize])
            .prop_map(|(run, times)| run.repeat(times)),
        tokens.prop_map(str::to_owned),
        "\\PC{0,12}",
        prop::collection::vec(any::<char>(), 0..12)
            .prop_map(|characters| characters.into_iter().collect()),
        "[a-z]{1,2000}",
        "[ \t\n]{1,300}",
    ];
    prop::collection::vec(fragment, 0..12).prop_map(|fragments| fragments.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn hard_texts_have_the_ids_of_the_whole(text in hard_text()) {
        for (name, tokenizer) in TOKENIZERS.iter() {
            check(name, tokenizer, &encoder(name, tokenizer), &text);
        }
    }
}
