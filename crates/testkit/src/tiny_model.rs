//! A model of under a megabyte that reads and writes bytes, for tests that need text but no sense.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A folder as Hugging Face lays it out: a random Llama and a tokenizer of single bytes. Ids 0 to
/// 2 are `<pad>`, `<s>` and `</s>`; byte `b` is id `b + 3`.
pub struct TinyModel {
    folder: tempfile::TempDir,
}

const CHAT_TEMPLATE: &str = "{% for message in messages %}{{ message.role }}: \
     {{ message.content }}\\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}";

impl TinyModel {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/llm/llama_plain");
        for name in ["config.json", "model.safetensors"] {
            std::fs::copy(source.join(name), folder.path().join(name)).expect("golden weights");
        }
        let config = format!(
            r#"{{"bos_token": "<s>", "eos_token": "</s>", "chat_template": "{CHAT_TEMPLATE}"}}"#
        );
        std::fs::write(folder.path().join("tokenizer_config.json"), config).expect("writable");
        std::fs::write(folder.path().join("tokenizer.json"), tokenizer()).expect("writable");
        TinyModel { folder }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().into()
    }

    /// Its files, each with its bytes.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let entries = std::fs::read_dir(self.folder.path()).expect("its own folder");
        let file = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.expect("its own folder").path();
            let name = path.file_name().expect("a file").to_string_lossy().into_owned();
            (name, std::fs::read(path).expect("its own file"))
        };
        entries.map(file).collect()
    }
}

impl Default for TinyModel {
    fn default() -> Self {
        Self::new()
    }
}

fn tokenizer() -> String {
    let mut vocab = String::new();
    for byte in 0..=255u8 {
        let name = json_escaped(byte_name(byte));
        let _ = write!(vocab, r#""{name}": {}, "#, u32::from(byte) + 3);
    }
    // The rest of the model's 320 rows.
    for id in 259..320 {
        let _ = write!(vocab, r#""<unused_{id}>": {id}, "#);
    }
    let added: Vec<String> = ["<pad>", "<s>", "</s>"]
        .iter()
        .enumerate()
        .map(|(id, text)| {
            format!(
                r#"{{"id": {id}, "content": "{text}", "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true}}"#
            )
        })
        .collect();
    let byte_level = r#"{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
        "use_regex": true}"#;
    format!(
        r#"{{"version": "1.0", "added_tokens": [{}], "pre_tokenizer": {byte_level},
        "decoder": {byte_level}, "model": {{"type": "BPE", "merges": [], "vocab": {{{vocab}
        "<pad>": 0, "<s>": 1, "</s>": 2}}}}}}"#,
        added.join(", ")
    )
}

/// The visible character that byte-level tokenizers write for a byte.
fn byte_name(byte: u8) -> char {
    let is_shown = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if is_shown(byte) {
        return char::from(byte);
    }
    let hidden_before = (0..byte).filter(|&byte| !is_shown(byte)).count();
    char::from_u32(256 + hidden_before as u32).expect("a character of Latin Extended-A")
}

fn json_escaped(name: char) -> String {
    match name {
        '"' | '\\' => format!("\\{name}"),
        other => other.to_string(),
    }
}
