//! The engine as a library, in four steps.
//!
//!     cargo run --release --example quickstart -- path/to/model.gguf
//!
//! `terrace pull` prints the path of the default model. A folder with `config.json`,
//! `tokenizer.json` and safetensors works as well.

use std::path::PathBuf;

use terrace_engine::text::GenerationConfig;
use terrace_engine::{InferenceConfig, InferenceEngine, Precision};
use terrace_model::{Families, LoadedModel};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Step 1: open a model. Its weights are mapped, not copied; the tokenizer comes with them.
    let path = std::env::args().nth(1).map(PathBuf::from).ok_or("give the path of a model")?;
    let model = LoadedModel::open(&path, &Families::known())?;

    // Step 2: create an inference config. All memory is taken from these numbers, once.
    let config = InferenceConfig {
        dtype: Precision::Fp16,
        max_batch_size: 4,
        max_input_len: 1024,
        max_output_len: 512,
        ..InferenceConfig::default()
    };

    // Step 3: create an engine with model and config.
    let mut engine = InferenceEngine::new(model, &config)?;

    // Step 4: try inference. What is left out of a generation config comes from the presets.
    let prompts = ["Who is the best player in the history of NBA?"];
    let generation = GenerationConfig { max_new_tokens: Some(64), ..GenerationConfig::default() };
    for generated in engine.generate(prompts, &generation)? {
        println!("{}", engine.full_text(&generated, 0)?);
    }
    Ok(())
}
