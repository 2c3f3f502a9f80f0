//! Tokenizers made from the metadata of small GGUF files.

use std::sync::LazyLock;

use proptest::prelude::*;
use terrace_model::{AddSpecial, Error, GgufFile, SpecialTokens, Tokenizer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

use crate::gguf_writer::GgufWriter;

/// Token types.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const BYTE: i32 = 6;

#[test]
fn sentence_piece_merges_by_score() {
    let tokenizer = load(sentence_piece()).expect("a good vocabulary");
    let texts = |text: &str| texts(&tokenizer, text);
    assert_eq!(texts("abc"), [" ", "ab", "c"], "the best score goes first");
    assert_eq!(texts("bc"), [" ", "bc"]);
    assert_eq!(texts("hi abc"), [" hi", " ", "ab", "c"]);
    assert_eq!(texts("hi  hi"), [" hi", " ", " hi"]);
    assert_eq!(texts(" hi"), [" ", " hi"], "a written space is kept beside the added one");
    assert_eq!(texts("<sep>hi"), ["<sep>", " hi"]);
    assert_eq!(texts("<0x0A>"), [" ", "<", "0", "x", "0", "A", ">"], "no byte");
    assert!(texts("").is_empty());
}

#[test]
fn sentence_piece_falls_back_to_bytes() {
    let tokenizer = load(sentence_piece()).expect("a good vocabulary");
    let ids = tokenizer.encode("é\n", AddSpecial::No).expect("encodes");
    let bytes: Vec<_> = ids.iter().map(|&id| tokenizer.token_bytes(id).expect("known")).collect();
    assert_eq!(bytes, [&b" "[..], &[0xC3], &[0xA9], b"\n"]);
    assert_eq!(tokenizer.token_text(ids[1]).as_deref(), Some("\u{FFFD}"));
    assert_eq!(tokenizer.decode(&ids, SpecialTokens::Keep).expect("decodes"), "é\n");
}

#[test]
fn framing_follows_the_file() {
    let framed = |writer| {
        let tokenizer = load(writer).expect("a good vocabulary");
        tokenizer.encode("hi", AddSpecial::Yes).expect("encodes")
    };
    let hi = framed(sentence_piece())[1];
    assert_eq!(framed(sentence_piece()), [1, hi], "BOS by default");
    assert_eq!(framed(sentence_piece().bool("tokenizer.ggml.add_bos_token", false)), [hi]);
    assert_eq!(framed(sentence_piece().bool("tokenizer.ggml.add_eos_token", true)), [1, hi, 2]);
    assert_eq!(framed(byte_level("gpt-2")).len(), 2, "no BOS by default");
    assert_eq!(framed(byte_level("llama-bpe"))[0], 256, "BOS by default");

    let tokenizer = load(sentence_piece().bool("tokenizer.ggml.add_space_prefix", false));
    let tokenizer = tokenizer.expect("a good vocabulary");
    assert_eq!(texts(&tokenizer, "abc"), ["ab", "c"]);
    let ids = tokenizer.encode(" hi", AddSpecial::No).expect("encodes");
    assert_eq!(tokenizer.decode(&ids, SpecialTokens::Keep).expect("decodes"), " hi");
}

#[test]
fn special_tokens_are_found_and_skipped() {
    for writer in [sentence_piece(), byte_level("qwen2")] {
        let tokenizer = load(writer).expect("a good vocabulary");
        let bos = tokenizer.bos().expect("BOS is named");
        let ids = tokenizer.encode("<s>hi</s>", AddSpecial::No).expect("encodes");
        assert_eq!((ids.first(), ids.last()), (Some(&bos), Some(&tokenizer.eos()[0])));
        assert_eq!(tokenizer.decode(&ids, SpecialTokens::Skip).expect("decodes"), "hi");
        let kept = tokenizer.decode(&ids, SpecialTokens::Keep).expect("decodes");
        assert_eq!(kept.replace(' ', ""), "<s>hi</s>");
        assert!(tokenizer.is_special(bos));
    }
}

#[test]
fn every_end_is_listed_once() {
    let writer = sentence_piece()
        .u32("tokenizer.ggml.eot_token_id", 3)
        .u32("tokenizer.ggml.eom_token_id", 2);
    assert_eq!(load(writer).expect("a good vocabulary").eos(), [2, 3]);
}

#[test]
fn byte_level_cuts_words_by_the_named_rule() {
    let words = |pre: &str, text: &str| {
        let tokenizer = load(byte_level(pre)).expect("a good vocabulary");
        texts(&tokenizer, text).join("|")
    };
    // "ab" and "12" are merges; "xyz" is a token that no merges reach.
    assert_eq!(words("gpt-2", "ab12 xyz"), "ab|12| |x|y|z");
    assert_eq!(words("smollm", "ab12"), "ab|1|2");
    assert_eq!(words("qwen2", "ab12"), "ab|1|2");
    assert_eq!(words("llama-bpe", "ab12xyz"), "ab|12|xyz");
    assert_eq!(words("deepseek-coder", "ab12"), "ab|1|2");
    assert_eq!(words("deepseek-llm", "ab12"), "ab|12");
    assert_eq!(words("deepseek-v3", "ab12"), "ab|12");
    assert_eq!(words("tekken", "abAB12"), "ab|A|B|1|2");
}

#[test]
fn wrong_vocabularies_are_refused() {
    let refused = |writer: GgufWriter, problem: &str| {
        let Err(error) = load(writer) else { panic!("wanted: {problem}") };
        assert!(error.to_string().contains(problem), "wanted {problem:?} in {error}");
    };
    refused(byte_level("klingon"), "\"klingon\" is not known; known are default, gpt-2, smollm");
    refused(vocabulary("wordpiece", &[("a", NORMAL)]), "\"wordpiece\"");
    refused(GgufWriter::new(), "tokenizer.ggml.tokens");
    refused(vocabulary("gpt2", &[("a", NORMAL)]), "tokenizer.ggml.merges");
    refused(vocabulary("gpt2", &[("a", 9)]), "token type 9");
    refused(vocabulary("gpt2", &[(&"a".repeat(1025), NORMAL)]), "1025 bytes");
    let merges =
        |merge| vocabulary("gpt2", &[("a", NORMAL)]).texts("tokenizer.ggml.merges", &[merge]);
    refused(merges("a b"), "b");
    refused(merges("ab"), "merge \"ab\" is one text");
    refused(vocabulary("llama", &[("a", NORMAL)]).f32s("tokenizer.ggml.scores", &[]), "0 values");
    refused(sentence_piece().u32("tokenizer.ggml.eot_token_id", 9999), "9999, outside");
}

static TOKENIZERS: LazyLock<[Tokenizer; 3]> = LazyLock::new(|| {
    let unprefixed = sentence_piece().bool("tokenizer.ggml.add_space_prefix", false);
    [sentence_piece(), unprefixed, byte_level("gpt-2")].map(|writer| load(writer).expect("loads"))
});

proptest! {
    #[test]
    fn streams_give_what_decode_gives(
        which in 0..3usize,
        ids in prop::collection::vec(0..261u32, 0..40),
        special in prop::sample::select(vec![SpecialTokens::Skip, SpecialTokens::Keep]),
    ) {
        let tokenizer = &TOKENIZERS[which];
        let mut stream = tokenizer.stream(special);
        let mut text = String::new();
        for &id in &ids {
            text += &stream.push(id).expect("a known token");
        }
        text += &stream.finish();
        prop_assert_eq!(text, tokenizer.decode(&ids, special).expect("decodes"));
    }
}

#[test]
fn a_stream_waits_for_whole_characters_only() {
    let tokenizer = load(byte_level("gpt-2")).expect("a good vocabulary");
    let ids = tokenizer.encode("a🙂b", AddSpecial::No).expect("encodes");
    let mut stream = tokenizer.stream(SpecialTokens::Skip);
    let pieces: Vec<String> = ids.iter().map(|&id| stream.push(id).expect("known")).collect();
    assert_eq!(pieces, ["a", "", "", "", "🙂", "b"]);
    assert_eq!(stream.finish(), "");

    // A broken character shows as soon as the next byte proves it broken.
    let pieces: Vec<String> =
        [ids[1], ids[5], ids[2]].map(|id| stream.push(id).expect("known")).into();
    assert_eq!(pieces, ["", "\u{FFFD}b", "\u{FFFD}"]);
}

/// `▁` and letters, some pieces with scores, all bytes.
pub fn sentence_piece() -> GgufWriter {
    let mut tokens = vec![
        ("<unk>", UNKNOWN, 0.0),
        ("<s>", CONTROL, 0.0),
        ("</s>", CONTROL, 0.0),
        ("<sep>", USER_DEFINED, 0.0),
        ("hi", NORMAL, -1.0),
        ("▁hi", NORMAL, -2.0),
        ("ab", NORMAL, -3.0),
        ("bc", NORMAL, -4.0),
        ("▁", NORMAL, -5.0),
    ];
    tokens.extend(["h", "i", "a", "b", "c", "x"].map(|letter| (letter, NORMAL, -6.0)));
    let bytes: Vec<String> = (0..=255u8).map(|byte| format!("<0x{byte:02X}>")).collect();
    tokens.extend(bytes.iter().map(|text| (text.as_str(), BYTE, 0.0)));

    let pairs: Vec<_> = tokens.iter().map(|&(text, kind, _)| (text, kind)).collect();
    let scores: Vec<f32> = tokens.iter().map(|&(.., score)| score).collect();
    vocabulary("llama", &pairs)
        .f32s("tokenizer.ggml.scores", &scores)
        .u32("tokenizer.ggml.bos_token_id", 1)
        .u32("tokenizer.ggml.eos_token_id", 2)
}

/// All bytes, two merges, and a word that no merges reach.
fn byte_level(pre: &str) -> GgufWriter {
    let mut alphabet: Vec<String> = ByteLevel::alphabet().iter().map(char::to_string).collect();
    alphabet.sort();
    let mut tokens: Vec<_> = alphabet.iter().map(|text| (text.as_str(), NORMAL)).collect();
    tokens.extend([("<s>", CONTROL), ("</s>", CONTROL)]);
    tokens.extend([("ab", NORMAL), ("12", NORMAL), ("xyz", NORMAL)]);
    vocabulary("gpt2", &tokens)
        .text("tokenizer.ggml.pre", pre)
        .texts("tokenizer.ggml.merges", &["a b", "1 2"])
        .u32("tokenizer.ggml.bos_token_id", 256)
        .u32("tokenizer.ggml.eos_token_id", 257)
}

fn vocabulary(kind: &str, tokens: &[(&str, i32)]) -> GgufWriter {
    let (texts, types): (Vec<&str>, Vec<i32>) = tokens.iter().copied().unzip();
    GgufWriter::new()
        .text("tokenizer.ggml.model", kind)
        .texts("tokenizer.ggml.tokens", &texts)
        .i32s("tokenizer.ggml.token_type", &types)
}

fn load(writer: GgufWriter) -> Result<Tokenizer, Error> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, writer.to_bytes()).expect("the folder can be written");
    Tokenizer::from_gguf(&GgufFile::open(&path)?)
}

/// The texts of a text's tokens.
fn texts(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
    let ids = tokenizer.encode(text, AddSpecial::No).expect("encodes");
    ids.iter().map(|&id| tokenizer.token_text(id).expect("a known token")).collect()
}
