//! How well a model foretells a text that it reads through a cache.

use anyhow::{Result, ensure};
use serde::Serialize;
use terrace_engine::TokenId;
use terrace_engine::text::{GenerationConfig, Prompt, TextRequest, TextStream};

use super::cache_case::{Bounds, CacheCase};
use super::run::Requests;

/// Parts of the text whose losses are reported, from its start to its end.
const PARTS: usize = 16;

#[derive(Clone, Debug, Serialize)]
pub struct PerplexityRow {
    pub cache: String,
    #[serde(flatten)]
    pub bounds: Option<Bounds>,
    pub slots: usize,
    pub perplexity: f64,
    /// Over dense: 0.1 is a tenth more.
    pub to_dense: f64,
    /// Nats that a token behind the first `slots` loses on average, compared to dense.
    pub lost_beyond: f64,
    /// Mean loss in nats of equal parts of the text.
    pub loss_by_part: Vec<f64>,
}

/// A text on its way through a cache.
pub struct ReadText {
    case: CacheCase,
    stream: TextStream,
}

impl ReadText {
    pub fn submit(requests: &Requests<'_>, case: &CacheCase, text: &[TokenId]) -> Result<Self> {
        let generation = GenerationConfig {
            do_sample: Some(false),
            max_new_tokens: Some(1),
            ignore_eos: Some(true),
            prompt_logprobs: Some(0),
            ..GenerationConfig::default()
        };
        let prompt = Prompt::Tokens(text.to_vec());
        let request = TextRequest {
            kv_cache: case.wishes(text.len()),
            ..TextRequest::new(prompt, generation)
        };
        Ok(ReadText { case: case.clone(), stream: requests.submit(request)? })
    }

    /// The losses in nats of all tokens behind the first.
    pub fn losses(self, requests: &Requests<'_>) -> Result<(CacheCase, Vec<f64>)> {
        let tokens = self.stream.prompt_tokens().len();
        let logprobs = requests.wait(self.stream)?.prompt_logprobs;
        ensure!(logprobs.len() + 1 == tokens, "{} losses of {tokens} tokens", logprobs.len());
        Ok((self.case, logprobs.into_iter().map(|logprob| -f64::from(logprob)).collect()))
    }
}

impl PerplexityRow {
    /// losses, dense: of all tokens behind the first
    pub fn new(case: &CacheCase, losses: &[f64], dense: &[f64]) -> Self {
        let slots = case.slots(losses.len() + 1);
        let perplexity = mean(losses).exp();
        let beyond = slots.min(losses.len());
        let part = losses.len().div_ceil(PARTS);
        PerplexityRow {
            cache: case.name(),
            bounds: case.bounds,
            slots,
            perplexity,
            to_dense: perplexity / mean(dense).exp() - 1.0,
            lost_beyond: mean(&losses[beyond..]) - mean(&dense[beyond..]),
            loss_by_part: losses.chunks(part).map(mean).collect(),
        }
    }
}

/// 0 of nothing.
fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::cache_case::{PolicyChoice, Share};
    use super::*;

    #[test]
    fn losses_beyond_the_cache_are_told_apart() {
        let case = CacheCase {
            policy: PolicyChoice::parse("h2o").expect("a name"),
            buffer: "default".into(),
            bounds: Some(Bounds { share: Share(0.5), chunk_size: 1 }),
        };
        let dense = [1.0; 31];
        let mut losses = dense;
        losses[16..].fill(2.0);
        let row = PerplexityRow::new(&case, &losses, &dense);
        assert_eq!(row.slots, 16);
        assert!((row.lost_beyond - 1.0).abs() < 1e-9, "{}", row.lost_beyond);
        assert!((row.perplexity.ln() - (16.0 + 30.0) / 31.0).abs() < 1e-9);
        assert_eq!(row.loss_by_part.len(), 16);
        let row = PerplexityRow::new(&CacheCase::dense(), &dense, &dense);
        assert_eq!((row.to_dense, row.lost_beyond), (0.0, 0.0));
    }
}
