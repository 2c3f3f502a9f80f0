//! A tokenizer: a GGUF file's metadata, or `tokenizer.json` with the files beside it.

use std::fs;

use terrace_model::{AddSpecial, Error, GgufFile, SpecialTokens, Tokenizer};

use crate::files;

const TEXT: &str = "text";
const FILES: [&str; 6] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "config.json",
    "chat_template.jinja",
    TEXT,
];
/// What is tokenised when the input has no text of its own.
const USUAL_TEXT: &str = "hi ab<s> <|end|> é\n1 <0x0A>";

pub fn run(input: &[u8]) -> bool {
    if input.starts_with(b"GGUF") {
        let file = files::file(input);
        let tokenizer = GgufFile::open(file.path()).and_then(|file| Tokenizer::from_gguf(&file));
        return used(tokenizer, USUAL_TEXT);
    }
    let files = files::sections(input, &FILES);
    let text = files.iter().find(|(name, _)| *name == TEXT);
    let text = text.map_or(USUAL_TEXT.into(), |(_, text)| String::from_utf8_lossy(text));
    let folder = files::folder(&files);
    let path = folder.path().join("tokenizer.json");
    fs::exists(&path).is_ok_and(|exists| exists) && used(Tokenizer::from_file(&path), &text)
}

fn used(tokenizer: Result<Tokenizer, Error>, text: &str) -> bool {
    let Ok(tokenizer) = tokenizer else { return false };
    let Ok(ids) = tokenizer.encode(text, AddSpecial::Yes) else { return true };
    let Ok(decoded) = tokenizer.decode(&ids, SpecialTokens::Keep) else { return true };
    let mut stream = tokenizer.stream(SpecialTokens::Keep);
    let texts = ids.iter().map(|&id| stream.push(id).expect("decode knew it"));
    let streamed: String = texts.collect();
    assert_eq!(streamed + &stream.finish(), decoded, "streamed and whole");
    for id in 0..32 {
        let _ = (tokenizer.token_text(id), tokenizer.is_special(id));
    }
    true
}
