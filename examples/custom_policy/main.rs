//! A rule of your own about which tokens a cache keeps, without forking Terrace.
//!
//!     cargo run --release --example custom_policy -- path/to/model.gguf
//!
//! The policy is `fading.rs`; this is an engine that serves with it. Its score is code of the host,
//! so the model runs on the CPU; without a path it is a tiny one that says nothing of sense.

mod fading;

use std::error::Error;
use std::path::PathBuf;

use terrace_cache::policy::Policies;
use terrace_engine::text::{GenerationConfig, TextRequest};
use terrace_engine::{
    DeviceChoice, Generated, InferenceConfig, InferenceEngine, KwArg, Lengths, RequestedKvCache,
};
use terrace_model::{Families, LoadedModel, SpecialTokens};
use terrace_testkit::TinyModel;

use fading::FADING;

const SLOTS: usize = 32;
const PROMPT: &str = "The quick brown fox jumps over the lazy dog, and the dog, who had been \
                      asleep since noon, looks up, yawns, and goes on sleeping until";

fn main() -> Result<(), Box<dyn Error>> {
    let tiny = TinyModel::new();
    let path = std::env::args().nth(1).map_or(tiny.path(), PathBuf::from);
    let mut engine = engine(LoadedModel::open(&path, &Families::known())?)?;
    let generated = generate(&mut engine)?;
    println!("{}\n", engine.full_text(&generated, 0)?);
    for layer in 0..generated.cache_traces[0].groups[0].layers.len() {
        println!("layer {layer}, first head: {}", kept_text(&engine, &generated, layer)?);
    }
    Ok(())
}

/// An engine whose caches are the policy's, by its name.
fn engine(model: LoadedModel) -> Result<InferenceEngine, terrace_engine::Error> {
    let kv_cache = RequestedKvCache {
        name: Some("fading-torch-quantized8".into()),
        cache_length: Some(Lengths::One(SLOTS)),
        chunk_size: Some(8),
        grace_period: Some(4),
        // It fades already.
        normalize_scores: Some(false),
        cache_kwargs: [("kept_share".to_owned(), KwArg::Number(0.5))].into(),
        ..RequestedKvCache::default()
    };
    let config = InferenceConfig {
        device: DeviceChoice::Cpu,
        policies: Policies::built_in().with(FADING),
        kv_cache,
        ..InferenceConfig::default()
    };
    InferenceEngine::new(model, &config)
}

fn generate(engine: &mut InferenceEngine) -> Result<Generated, terrace_engine::Error> {
    let generation = GenerationConfig { max_new_tokens: Some(24), ..GenerationConfig::default() };
    engine.add(TextRequest { cache_trace: true, ..TextRequest::new(PROMPT, generation) })?;
    loop {
        if let Some(generated) = engine.step().pop() {
            return Ok(generated);
        }
    }
}

/// The prompt as the first head of a layer remembers it: a dot for each token that has left.
fn kept_text(
    engine: &InferenceEngine,
    generated: &Generated,
    layer: usize,
) -> Result<String, terrace_model::Error> {
    let heads = generated.cache_traces[0].groups[0].kept.as_ref().map(|layers| &layers[layer]);
    let text = |(position, token): (usize, &u32)| match heads
        .is_some_and(|heads| heads[0].count_in(position, position + 1) == 1)
    {
        true => engine.tokenizer().decode(&[*token], SpecialTokens::Skip),
        false => Ok("·".to_owned()),
    };
    generated.prompt.iter().enumerate().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_keeps_its_protected_tokens_and_fills_its_slots() {
        let model = LoadedModel::open(&TinyModel::new().path(), &Families::known());
        let mut engine = engine(model.expect("a model")).expect("an engine");
        let generated = generate(&mut engine).expect("an output");
        let trace = &generated.cache_traces[0];
        assert!(SLOTS < trace.computed_tokens, "nothing had to leave");
        for head in trace.groups[0].kept.iter().flatten().flatten() {
            assert_eq!((head.count(), head.count_in(0, SLOTS / 8)), (SLOTS, SLOTS / 8));
        }
        let kept = kept_text(&engine, &generated, 0).expect("text");
        assert!(kept.contains('·'), "{kept}");
    }
}
