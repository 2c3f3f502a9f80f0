//! A rule of your own about the next token, without forking Terrace.
//!
//!     cargo run --release --example custom_logits -- path/to/model.gguf
//!
//! The rule here forbids tokens that contain the letter `e`.

use std::path::PathBuf;
use std::sync::Arc;

use terrace_engine::text::{GenerationConfig, TextRequest};
use terrace_engine::{InferenceConfig, InferenceEngine, LogitsContext, LogitsProcessor};
use terrace_model::{Families, LoadedModel, Tokenizer};

/// Forbids a fixed set of tokens.
struct Forbid {
    tokens: Vec<usize>,
}

impl Forbid {
    fn letter(letter: char, tokenizer: &Tokenizer) -> Self {
        let has_letter =
            |id: &usize| tokenizer.token_text(*id as u32).is_some_and(|text| text.contains(letter));
        Forbid { tokens: (0..tokenizer.vocab_size()).filter(has_letter).collect() }
    }
}

impl LogitsProcessor for Forbid {
    fn process(&self, _context: &LogitsContext<'_>, logits: &mut [f32]) {
        for &token in &self.tokens {
            logits[token] = f32::NEG_INFINITY;
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).map(PathBuf::from).ok_or("give the path of a model")?;
    let model = LoadedModel::open(&path, &Families::known())?;
    let mut engine = InferenceEngine::new(model, &InferenceConfig::default())?;

    let no_e = Arc::new(Forbid::letter('e', engine.tokenizer()));
    let generation = GenerationConfig { max_new_tokens: Some(40), ..GenerationConfig::default() };
    let request = TextRequest::new("A short story about a dog: ", generation);
    engine.add(TextRequest { processors: vec![no_e], ..request })?;
    while engine.unfinished() > 0 {
        for generated in engine.step() {
            println!("{}", generated.outputs[0].text);
        }
    }
    Ok(())
}
