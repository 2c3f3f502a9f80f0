//! How well a model predicts a text, with a given KV cache.

use anyhow::{Result, ensure};
use serde::Serialize;
use terrace_engine::TokenId;
use terrace_engine::text::{GenerationConfig, Prompt, TextRequest, TextStream};

use super::cache_case::{CacheCase, CaseLabel};
use super::run::Requests;

/// Parts of the text whose losses are reported, from its start to its end.
const PARTS: usize = 16;

#[derive(Clone, Debug, Serialize)]
pub struct PerplexityRow {
    #[serde(flatten)]
    pub case: CaseLabel,
    pub slots: usize,
    pub perplexity: f64,
    /// Over dense: 0.1 is a tenth more.
    pub to_dense: f64,
    /// Nats that a token behind the first `slots` loses on average, compared to dense.
    pub lost_beyond: f64,
    /// Standard error of that mean.
    pub lost_error: f64,
    /// Share of the tokens for which another one than dense's was the most probable.
    pub other_best: f64,
    /// Mean loss in nats of equal parts of a segment.
    pub loss_by_part: Vec<f64>,
}

/// Segments of a text on their way through a cache.
pub struct ReadText {
    case: CacheCase,
    streams: Vec<TextStream>,
}

/// What a cache made of one segment, of all tokens behind the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// In nats.
    losses: Vec<f64>,
    /// The most probable tokens.
    best: Vec<TokenId>,
}

impl ReadText {
    /// Cuts `text` into segments of so many tokens.
    pub fn submit(
        requests: &Requests<'_>,
        case: &CacheCase,
        text: &[TokenId],
        segment: usize,
    ) -> Result<Self> {
        let generation = GenerationConfig {
            do_sample: Some(false),
            max_new_tokens: Some(1),
            ignore_eos: Some(true),
            prompt_logprobs: Some(1),
            ..GenerationConfig::default()
        };
        let submit = |tokens: &[TokenId]| {
            let prompt = Prompt::Tokens(tokens.to_vec());
            requests.submit(TextRequest {
                kv_cache: case.requested(tokens.len()),
                ..TextRequest::new(prompt, generation.clone())
            })
        };
        let streams = text.chunks(segment).map(submit).collect::<Result<_>>()?;
        Ok(ReadText { case: case.clone(), streams })
    }

    pub fn predicted(self, requests: &Requests<'_>) -> Result<(CacheCase, Vec<Predicted>)> {
        let read = |stream: TextStream| {
            let tokens = stream.prompt_tokens().len();
            let read = requests.wait(stream)?.prompt_logprobs;
            ensure!(read.len() + 1 == tokens, "{} losses of {tokens} tokens", read.len());
            Ok(Predicted {
                losses: read.iter().map(|token| -f64::from(token.logprob)).collect(),
                best: read.iter().filter_map(|token| Some(token.top.first()?.0)).collect(),
            })
        };
        Ok((self.case, self.streams.into_iter().map(read).collect::<Result<_>>()?))
    }
}

impl PerplexityRow {
    /// `read` and `dense` have the same segments, all of one length.
    pub fn new(case: &CacheCase, read: &[Predicted], dense: &[Predicted]) -> Self {
        let tokens = read[0].losses.len();
        let slots = case.slots(tokens + 1);
        let beyond = slots.min(tokens);
        let pairs = || read.iter().zip(dense);
        let lost = pairs().flat_map(|(read, dense)| {
            read.losses[beyond..].iter().zip(&dense.losses[beyond..]).map(|(a, b)| a - b)
        });
        let lost: Vec<f64> = lost.collect();
        let other = pairs().map(|(read, dense)| {
            read.best.iter().zip(&dense.best).filter(|(read, dense)| read != dense).count()
        });
        let perplexity = perplexity(read);
        let part = tokens.div_ceil(PARTS);
        let part_loss = |start: usize| {
            let losses = read.iter().flat_map(|read| &read.losses[start..tokens.min(start + part)]);
            mean(&losses.copied().collect::<Vec<_>>())
        };
        PerplexityRow {
            case: case.label(),
            slots,
            perplexity,
            to_dense: perplexity / self::perplexity(dense) - 1.0,
            lost_beyond: mean(&lost),
            lost_error: standard_error(&lost),
            other_best: other.sum::<usize>() as f64 / (tokens * read.len()) as f64,
            loss_by_part: (0..tokens).step_by(part).map(part_loss).collect(),
        }
    }
}

fn perplexity(read: &[Predicted]) -> f64 {
    let losses: Vec<f64> = read.iter().flat_map(|read| &read.losses).copied().collect();
    mean(&losses).exp()
}

/// 0 of nothing.
fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len().max(1) as f64
}

/// Of the mean; 0 of fewer than two.
fn standard_error(numbers: &[f64]) -> f64 {
    let mean = mean(numbers);
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    let count = numbers.len() as f64;
    if count < 2.0 { 0.0 } else { (squares / (count - 1.0) / count).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::super::cache_case::{Bounds, PolicyChoice, Share};
    use super::*;

    #[test]
    fn losses_beyond_the_cache_are_distinguished() {
        let case = CacheCase {
            policy: PolicyChoice::parse("h2o").expect("a name"),
            buffer: "default".into(),
            bounds: Some(Bounds { share: Share(0.5), chunk_size: 1 }),
        };
        let segment = Predicted { losses: vec![1.0; 31], best: vec![7; 31] };
        let dense = [segment.clone(), segment];
        let mut read = dense.clone();
        for (read, loss) in read.iter_mut().zip([2.0, 4.0]) {
            read.losses[16..].fill(loss);
        }
        read[1].best[30] = 8;
        let row = PerplexityRow::new(&case, &read, &dense);
        assert_eq!(row.slots, 16);
        assert!((row.lost_beyond - 2.0).abs() < 1e-9, "{}", row.lost_beyond);
        assert!((row.lost_error - (1.0f64 / 29.0).sqrt()).abs() < 1e-9, "{}", row.lost_error);
        assert!((row.perplexity.ln() - (2.0 * 16.0 + 15.0 * 6.0) / 62.0).abs() < 1e-9);
        assert!((row.other_best - 1.0 / 62.0).abs() < 1e-9, "{}", row.other_best);
        assert_eq!(row.loss_by_part.len(), 16);
        assert_eq!((row.loss_by_part[0], row.loss_by_part[15]), (1.0, 3.0));
        let row = PerplexityRow::new(&CacheCase::dense(), &dense, &dense);
        assert_eq!((row.to_dense, row.lost_beyond, row.other_best), (0.0, 0.0, 0.0));
    }
}
