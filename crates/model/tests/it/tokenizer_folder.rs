//! Tokenizers made from `tokenizer.json` and the files beside it.

use serde_json::{Value, json};
use tempfile::TempDir;
use terrace_model::{AddSpecial, Error, SpecialTokens, Tokenizer};

#[test]
fn text_goes_in_and_comes_back() {
    let (_folder, tokenizer) = load(&[("tokenizer.json", sample())]).expect("a good folder");
    let ids = tokenizer.encode("ab a<|end|>", AddSpecial::No).expect("encodes");
    assert_eq!(ids, [3, 2, 0, 5]);
    assert_eq!(tokenizer.decode(&ids, SpecialTokens::Keep).expect("decodes"), "ab a<|end|>");
    assert_eq!(tokenizer.decode(&ids, SpecialTokens::Skip).expect("decodes"), "ab a");
    assert_eq!(tokenizer.vocab_size(), 6);
    assert_eq!(tokenizer.token_bytes(2).as_deref(), Some(&b" "[..]));
    assert!(tokenizer.is_special(5) && !tokenizer.is_special(3));
    assert_eq!(
        (tokenizer.bos(), tokenizer.eos(), tokenizer.chat_template()),
        (None, &[][..], None)
    );
}

#[test]
fn the_post_processor_frames_a_text() {
    let framed = |config: Value| {
        let files = [("tokenizer.json", sample()), ("tokenizer_config.json", config)];
        let (_folder, tokenizer) = load(&files).expect("a good folder");
        tokenizer.encode("a", AddSpecial::Yes).expect("encodes")
    };
    assert_eq!(framed(json!({})), [4, 0]);
    assert_eq!(framed(json!({ "bos_token": "<|bos|>", "add_bos_token": true })), [4, 0]);
    assert_eq!(framed(json!({ "bos_token": "<|bos|>", "add_bos_token": false })), [0]);
    let both = json!({ "eos_token": { "content": "<|end|>" }, "add_eos_token": true });
    assert_eq!(framed(both), [4, 0, 5]);

    let mut plain = sample();
    plain["post_processor"] = Value::Null;
    let config = json!({ "bos_token": "<|bos|>", "add_bos_token": true });
    let files = [("tokenizer.json", plain), ("tokenizer_config.json", config)];
    let (_folder, tokenizer) = load(&files).expect("a good folder");
    assert_eq!(tokenizer.encode("a", AddSpecial::Yes).expect("encodes"), [4, 0]);
}

#[test]
fn special_tokens_are_gathered_from_all_files() {
    let files = [
        ("tokenizer.json", sample()),
        ("tokenizer_config.json", json!({ "eos_token": "<|end|>", "bos_token": null })),
        ("generation_config.json", json!({ "eos_token_id": [3, 5] })),
        ("config.json", json!({ "eos_token_id": 1, "bos_token_id": 4 })),
    ];
    let (_folder, tokenizer) = load(&files).expect("a good folder");
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(4), &[5, 3, 1][..]));
}

#[test]
fn chat_templates_are_found() {
    let template = |config: Value| {
        let files = [("tokenizer.json", sample()), ("tokenizer_config.json", config)];
        let (folder, tokenizer) = load(&files).expect("a good folder");
        (folder, tokenizer.chat_template().map(str::to_owned))
    };
    let (folder, found) = template(json!({ "chat_template": "one" }));
    assert_eq!(found.as_deref(), Some("one"));
    let named = json!([
        { "name": "tool_use", "template": "tools" },
        { "name": "default", "template": "plain" },
    ]);
    assert_eq!(template(json!({ "chat_template": named })).1.as_deref(), Some("plain"));

    std::fs::write(folder.path().join("chat_template.jinja"), "own file").expect("writes");
    let tokenizer = Tokenizer::from_file(&folder.path().join("tokenizer.json")).expect("reads");
    assert_eq!(tokenizer.chat_template(), Some("own file"));
}

#[test]
fn texts_are_neither_cut_nor_padded() {
    let mut cutting = sample();
    cutting["truncation"] =
        json!({ "direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0 });
    cutting["padding"] = json!({
        "strategy": { "Fixed": 20 }, "direction": "Right", "pad_to_multiple_of": null,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "a",
    });
    let (_folder, tokenizer) = load(&[("tokenizer.json", cutting)]).expect("a good folder");
    assert_eq!(tokenizer.encode("aaaa", AddSpecial::Yes).expect("encodes"), [4, 0, 0, 0, 0]);
}

#[test]
fn space_marks_and_byte_tokens_are_understood() {
    let mut pieces = sample();
    pieces["model"] = json!({
        "type": "BPE", "byte_fallback": true, "fuse_unk": true, "unk_token": null,
        "vocab": { "▁": 0, "a": 1, "▁a": 2, "<0xC3>": 3, "<0xA9>": 4 },
        "merges": ["▁ a"],
    });
    pieces["added_tokens"] = json!([]);
    pieces["post_processor"] = Value::Null;
    pieces["pre_tokenizer"] = Value::Null;
    pieces["normalizer"] = json!({ "type": "Sequence", "normalizers": [
        { "type": "Prepend", "prepend": "▁" },
        { "type": "Replace", "pattern": { "String": " " }, "content": "▁" },
    ]});
    pieces["decoder"] = json!({ "type": "Sequence", "decoders": [
        { "type": "Replace", "pattern": { "String": "▁" }, "content": " " },
        { "type": "ByteFallback" }, { "type": "Fuse" },
        { "type": "Strip", "content": " ", "start": 1, "stop": 0 },
    ]});
    let (_folder, tokenizer) = load(&[("tokenizer.json", pieces.clone())]).expect("a good folder");
    let ids = tokenizer.encode("a aé", AddSpecial::Yes).expect("encodes");
    assert_eq!(ids, [2, 2, 3, 4]);
    assert_eq!(tokenizer.decode(&ids, SpecialTokens::Keep).expect("decodes"), "a aé");

    pieces["decoder"] = json!({
        "type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": false,
    });
    let (_folder, tokenizer) = load(&[("tokenizer.json", pieces)]).expect("a good folder");
    assert_eq!(tokenizer.decode(&[2], SpecialTokens::Keep).expect("decodes"), " a");
}

#[test]
fn wrong_files_are_refused() {
    let refused = |change: &dyn Fn(&mut Value), problem: &str| {
        let mut tokenizer = sample();
        change(&mut tokenizer);
        let Err(error) = load(&[("tokenizer.json", tokenizer)]) else { panic!("{problem}") };
        assert!(error.to_string().contains(problem), "wanted {problem:?} in {error}");
    };
    refused(&|json| json["decoder"] = Value::Null, "decoder null is not supported");
    let word_piece = json!({ "type": "WordPiece", "prefix": "##", "cleanup": true });
    refused(&|json| json["decoder"] = word_piece.clone(), "WordPiece");
    refused(&|json| json["model"]["merges"] = json!(["a z"]), "z");
    refused(&|json| *json = json!(7), "tokenizer.json");
    // The crate below panics here: the prefix is longer than the merge's second part.
    refused(&|json| json["model"]["continuing_subword_prefix"] = json!("####"), "contradict");

    let files = [("tokenizer.json", sample()), ("config.json", json!({ "eos_token_id": "x" }))];
    assert!(load(&files).err().expect("not an id").to_string().contains("config.json"));
    let Err(error) = load(&[]) else { panic!("nothing is there") };
    assert!(error.to_string().contains("cannot read"), "{error}");
}

/// A byte-level tokenizer of six tokens that begins texts with `<|bos|>`.
pub fn sample() -> Value {
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [added(4, "<|bos|>"), added(5, "<|end|>")],
        "normalizer": null,
        "pre_tokenizer": byte_level(),
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                { "SpecialToken": { "id": "<|bos|>", "type_id": 0 } },
                { "Sequence": { "id": "A", "type_id": 0 } },
            ],
            "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }],
            "special_tokens": { "<|bos|>": { "id": "<|bos|>", "ids": [4], "tokens": ["<|bos|>"] } },
        },
        "decoder": byte_level(),
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": false,
            "vocab": { "a": 0, "b": 1, "Ġ": 2, "ab": 3 },
            "merges": ["a b"],
        },
    })
}

fn byte_level() -> Value {
    json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true,
    })
}

fn added(id: u32, content: &str) -> Value {
    json!({
        "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": true,
    })
}

fn load(files: &[(&str, Value)]) -> Result<(TempDir, Tokenizer), Error> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, value) in files {
        std::fs::write(folder.path().join(name), value.to_string()).expect("writes");
    }
    let tokenizer = Tokenizer::from_file(&folder.path().join("tokenizer.json"))?;
    Ok((folder, tokenizer))
}
