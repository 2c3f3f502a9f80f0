//! SmolLM2's own file, against what its official tokenizer gives.

use serde::Deserialize;
use terrace_kernels::WeightFormat;
use terrace_model::{
    AddSpecial, ChatTemplate, GgufFile, Message, RenderOptions, SpecialTokenTexts, SpecialTokens,
    Tokenizer, Weights,
};
use terrace_testkit::{smollm2_gguf, smollm2_reference};

#[derive(Deserialize)]
struct Golden {
    items: Vec<Prompt>,
    tokenize: Vec<Case>,
}

#[derive(Deserialize)]
struct Prompt {
    /// Of a chat, whose template gives `prompt`.
    messages: Option<Vec<Message>>,
    prompt: String,
    prompt_ids: Vec<u32>,
    greedy_ids: Vec<u32>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    ids: Vec<u32>,
}

#[test]
fn golden_texts_become_the_right_tokens() {
    let Some(golden) = golden() else { return };
    let tokenizer = Tokenizer::from_gguf(&file()).expect("SmolLM2's tokenizer");
    let prompts = golden.items.iter().map(|item| (&item.prompt, &item.prompt_ids));
    let cases = golden.tokenize.iter().map(|case| (&case.text, &case.ids));
    for (text, ids) in cases.chain(prompts) {
        assert_eq!(&tokenizer.encode(text, AddSpecial::Yes).expect("encodes"), ids, "{text:?}");
        assert_eq!(&tokenizer.decode(ids, SpecialTokens::Keep).expect("decodes"), text);
    }
}

#[test]
fn golden_outputs_stream_as_they_decode() {
    let Some(golden) = golden() else { return };
    let tokenizer = Tokenizer::from_gguf(&file()).expect("SmolLM2's tokenizer");
    for item in &golden.items {
        for special in [SpecialTokens::Skip, SpecialTokens::Keep] {
            let mut stream = tokenizer.stream(special);
            let mut text = String::new();
            for &id in item.prompt_ids.iter().chain(&item.greedy_ids) {
                text += &stream.push(id).expect("a known token");
            }
            text += &stream.finish();
            let ids = [&item.prompt_ids[..], &item.greedy_ids].concat();
            assert_eq!(text, tokenizer.decode(&ids, special).expect("decodes"));
        }
    }
}

#[test]
fn golden_chats_become_the_right_prompts() {
    let tokenizer = Tokenizer::from_gguf(&file()).expect("SmolLM2's tokenizer");
    let source = tokenizer.chat_template().expect("SmolLM2's template");
    let template = ChatTemplate::new(source, SpecialTokenTexts::of(&tokenizer)).expect("compiles");
    let options = RenderOptions::next_message();
    let mut chats = 0;
    let Some(golden) = golden() else { return };
    for item in golden.items {
        if let Some(messages) = item.messages {
            assert_eq!(template.render(&messages, &options).expect("renders"), item.prompt);
            chats += 1;
        }
    }
    assert_eq!(chats, 4);
}

#[test]
fn smollm2_is_described_by_its_file() {
    let file = file();
    let tokenizer = Tokenizer::from_gguf(&file).expect("SmolLM2's tokenizer");
    assert_eq!(tokenizer.vocab_size(), 49152);
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(1), &[2][..]));
    assert_eq!(tokenizer.token_text(2).as_deref(), Some("<|im_end|>"));
    assert_eq!(tokenizer.token_bytes(905).as_deref(), Some(&b" world"[..]));
    assert!(tokenizer.is_special(2) && !tokenizer.is_special(905));
    assert!(tokenizer.chat_template().expect("a template").contains("im_start"));
    tokenizer.decode(&[49152], SpecialTokens::Keep).expect_err("an unknown id");

    let weights = Weights::from_gguf(&file);
    assert_eq!(weights.names().count(), 272);
    let embedding = weights.matrix("token_embd.weight").expect("the embedding");
    assert_eq!((embedding.rows(), embedding.columns()), (49152, 576));
    assert_eq!(embedding.format(), WeightFormat::Q8_0);
    let key = weights.matrix("blk.0.attn_k.weight").expect("a key projection");
    assert_eq!((key.rows(), key.columns(), key.format()), (192, 576, WeightFormat::Q4_1));
    assert_eq!(weights.vector("output_norm.weight").expect("the last norm").len(), 576);
}

fn golden() -> Option<Golden> {
    let text = std::fs::read_to_string(smollm2_reference()?).expect("a readable file");
    Some(serde_json::from_str(&text).expect("golden data of this shape"))
}

fn file() -> GgufFile {
    GgufFile::open(&smollm2_gguf()).expect("SmolLM2's file")
}
