//! Sequences longer than a model was trained for.

use terrace_engine::YarnRope::{Expected, Never};
use terrace_engine::text::GenerationConfig;
use terrace_engine::{ComputeChoice, Error, InferenceConfig, InferenceEngine, YarnRope};

use crate::tiny_model::{self, tiny};

/// Tokens of the tiny model's context.
const TRAINED: usize = 512;

fn config(max_context_len: Option<usize>, yarn_rope: Option<YarnRope>) -> InferenceConfig {
    InferenceConfig {
        compute: ComputeChoice::F32,
        max_input_len: 900,
        max_output_len: 100,
        max_context_len,
        yarn_rope,
        ..tiny_model::config()
    }
}

fn engine(config: &InferenceConfig) -> Result<InferenceEngine, Error> {
    InferenceEngine::new(tiny(), config)
}

fn ids(engine: &mut InferenceEngine, prompt_tokens: usize) -> Result<Vec<u32>, Error> {
    let generation = GenerationConfig {
        max_new_tokens: Some(40),
        ignore_eos: Some(true),
        ..GenerationConfig::default()
    };
    let prompt: Vec<u32> = (0..prompt_tokens as u32).map(|i| 3 + i * i % 200).collect();
    let mut outputs = engine.generate(prompt, &generation)?;
    Ok(outputs[0].outputs.swap_remove(0).token_ids)
}

#[test]
fn within_the_trained_length_nothing_changes() {
    let mut plain = engine(&config(None, None)).expect("an engine");
    let lengths = [(Some(TRAINED), None), (Some(TRAINED), Some(Expected)), (None, Some(Never))];
    for (length, yarn) in lengths {
        let mut other = engine(&config(length, yarn)).expect("an engine");
        for tokens in [5, 400] {
            let [want, got] = [&mut plain, &mut other].map(|engine| ids(engine, tokens));
            assert_eq!(got.expect("an output"), want.expect("an output"), "{length:?} {yarn:?}");
        }
    }
}

#[test]
fn beyond_it_positions_are_scaled() {
    let limit = |engine: &mut InferenceEngine, tokens: usize| match ids(engine, tokens) {
        Err(Error::ContextTooLong { limit, .. }) => limit,
        other => panic!("{other:?}"),
    };
    assert_eq!(limit(&mut engine(&config(None, None)).expect("an engine"), 500), TRAINED);
    let scaled =
        [(Some(800), None, 800), (Some(800), Some(Expected), 800), (None, Some(Expected), 1000)];
    for (length, yarn, most) in scaled {
        let mut longer = engine(&config(length, yarn)).expect("an engine");
        assert_eq!(ids(&mut longer, 900.min(most - 40)).expect("an output").len(), 40);
        if most < 900 {
            assert_eq!(limit(&mut longer, most - 39), most);
        }
        // Short texts are read otherwise too.
        let mut plain = engine(&config(None, None)).expect("an engine");
        let [short, same] = [&mut longer, &mut plain].map(|engine| ids(engine, 300));
        assert_ne!(short.expect("an output"), same.expect("an output"));
    }
}

#[test]
fn a_length_without_scaling_is_refused() {
    let error = engine(&config(Some(600), Some(Never))).err().expect("too long").to_string();
    assert!(error.contains("max_context_len is 600: the model's context is 512"), "{error}");
    let shorter = engine(&config(Some(100), None)).map(|mut engine| ids(&mut engine, 90));
    match shorter {
        Ok(Err(Error::ContextTooLong { limit: 100, .. })) => {}
        other => panic!("{:?}", other.map(|ids| ids.map(|ids| ids.len())).err()),
    }
}
