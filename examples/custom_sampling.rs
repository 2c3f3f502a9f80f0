//! A sampling strategy of your own, without forking Terrace.
//!
//!     cargo run --release --example custom_sampling -- path/to/model.gguf
//!
//! The strategy here is top-n-sigma: it keeps the tokens whose logits are within `n` standard
//! deviations of the largest, and draws among them. Penalties, processors and grammars act before
//! it, as before every strategy. Without a path the model is a tiny one that says nothing of sense.

use std::path::PathBuf;
use std::sync::Arc;

use terrace_engine::text::{GenerationConfig, TextRequest};
use terrace_engine::{
    Generated, InferenceConfig, InferenceEngine, LogitsContext, SamplingStrategy, TokenId,
};
use terrace_model::{Families, LoadedModel};
use terrace_testkit::TinyModel;

struct TopNSigma {
    n: f32,
}

impl SamplingStrategy for TopNSigma {
    fn sample(&self, context: &LogitsContext<'_>, logits: &[f32]) -> Option<TokenId> {
        let allowed = || logits.iter().copied().filter(|logit| logit.is_finite());
        let largest = allowed().reduce(f32::max)?;
        let count = allowed().count() as f32;
        let mean = allowed().sum::<f32>() / count;
        let variance = allowed().map(|logit| (logit - mean).powi(2)).sum::<f32>() / count;
        let least = largest - self.n * variance.sqrt();

        let weight = |logit: f32| match logit >= least {
            true => f64::from(logit - largest).exp(),
            false => 0.0,
        };
        let total: f64 = logits.iter().map(|logit| weight(*logit)).sum();
        let mut left = context.uniform() * total;
        let kept = logits.iter().enumerate().filter(|(_, logit)| **logit >= least);
        let mut sampled = None;
        for (id, logit) in kept {
            sampled = Some(id as TokenId);
            left -= weight(*logit);
            if left < 0.0 {
                break;
            }
        }
        sampled
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tiny = TinyModel::new();
    let path = std::env::args().nth(1).map_or(tiny.path(), PathBuf::from);
    let model = LoadedModel::open(&path, &Families::known())?;
    let mut engine = InferenceEngine::new(model, &InferenceConfig::default())?;
    for seed in 0..3 {
        let generated = generate(&mut engine, TopNSigma { n: 1.0 }, seed)?;
        println!("{}", generated.outputs[0].text);
    }
    Ok(())
}

fn generate(
    engine: &mut InferenceEngine,
    strategy: impl SamplingStrategy + 'static,
    seed: u64,
) -> Result<Generated, terrace_engine::Error> {
    let generation = GenerationConfig {
        seed: Some(seed),
        max_new_tokens: Some(24),
        ..GenerationConfig::default()
    };
    let request = TextRequest::new("A short story about a dog: ", generation);
    engine.add(TextRequest { strategy: Some(Arc::new(strategy)), ..request })?;
    loop {
        if let Some(generated) = engine.step().pop() {
            return Ok(generated);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_engine::Failure;
    use terrace_engine::text::TextFinish;

    fn engine() -> InferenceEngine {
        let model = LoadedModel::open(&TinyModel::new().path(), &Families::known());
        let config = InferenceConfig { ignore_eos: Some(true), ..InferenceConfig::default() };
        InferenceEngine::new(model.expect("a model"), &config).expect("an engine")
    }

    fn output(strategy: impl SamplingStrategy + 'static, seed: u64) -> Vec<TokenId> {
        let generated = generate(&mut engine(), strategy, seed).expect("an output");
        assert_eq!(generated.outputs[0].finish, Some(TextFinish::Length));
        generated.outputs[0].token_ids.clone()
    }

    #[test]
    fn the_strategy_samples_and_repeats_with_its_seed() {
        let wide = || TopNSigma { n: 3.0 };
        assert_eq!(output(wide(), 1), output(wide(), 1));
        assert_ne!(output(wide(), 1), output(wide(), 2));
        // Within no deviation of the best token there is only itself.
        let prompt = "A short story about a dog: ";
        let tokens = GenerationConfig { max_new_tokens: Some(24), ..GenerationConfig::default() };
        let greedy = engine().generate(prompt, &tokens).expect("an output").remove(0);
        assert_eq!(output(TopNSigma { n: 0.0 }, 1), greedy.outputs[0].token_ids);
    }

    /// Samples this token, whatever the logits say.
    struct Always(TokenId);

    impl SamplingStrategy for Always {
        fn sample(&self, _: &LogitsContext<'_>, _: &[f32]) -> Option<TokenId> {
            Some(self.0)
        }
    }

    #[test]
    fn a_token_that_cannot_be_sampled_ends_its_request_alone() {
        assert_eq!(output(Always(100), 0), [100; 24]);
        let mut engine = engine();
        let outside = generate(&mut engine, Always(320), 0).expect("an output");
        assert_eq!(outside.outputs[0].finish, Some(TextFinish::Failed(Failure::Step)));
        let inside = generate(&mut engine, Always(319), 0).expect("an output");
        assert_eq!(inside.outputs[0].finish, Some(TextFinish::Length));
    }

    #[test]
    fn options_that_a_strategy_does_not_read_are_refused() {
        let generation = GenerationConfig { temperature: Some(0.5), ..GenerationConfig::default() };
        let request = TextRequest::new("hello", generation);
        let strategy: Option<Arc<dyn SamplingStrategy>> = Some(Arc::new(Always(100)));
        let error = engine().add(TextRequest { strategy, ..request }).expect_err("refused");
        let want = "temperature is 0.5: the request brings a sampling strategy, which does not \
                    read it; leave it out";
        assert_eq!(error.to_string(), want);
    }
}
