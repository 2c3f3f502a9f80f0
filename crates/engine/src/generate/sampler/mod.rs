//! Scores of the next token in, one token out.
//!
//! The order is fixed: logit bias, repetition penalty, presence and frequency penalties,
//! no-repeat n-grams, bad words, minimum length, forced end, the user's own processors, the
//! grammar; then the user's own strategy, or the best token, or temperature, top-k, top-p, min-p,
//! typical-p and a draw, which are `terrace_kernels::sampling`. A processor that is off costs
//! nothing.
//!
//! Invariant: what is chosen is a function of the row's logits and its [`RowContext`]. The batch,
//! the rows before it and the sampler's scratch have no influence.

mod bad_words;
mod forced_eos;
mod logit_bias;
mod logprobs;
mod min_new_tokens;
mod no_repeat_ngram;
mod presence_frequency;
mod repetition_penalty;
#[cfg(test)]
mod tests;
mod token_counts;

use crate::error::Error;
use crate::generate::executor::SampledToken;
use crate::generate::logits_processor::LogitsContext;
use crate::generate::sampling_params::SamplingParams;
use crate::generate::token_event::TokenLogprobs;
use crate::guidance::AllowedTokens;
use terrace_cache::TokenId;
use terrace_kernels::sampling::{Chooser, Draw, Pick};
use token_counts::TokenCounts;

/// Chooses tokens. Holds nothing but scratch, which grows to the vocabulary and is then reused.
#[derive(Default)]
pub struct Sampler {
    counts: TokenCounts,
    /// The row before any processor, kept for log-probabilities and for rows with a grammar.
    raw: Vec<f32>,
    weights: Vec<f32>,
    chooser: Chooser,
}

/// Whose turn it is: all that the choice of a token may depend on, besides its logits.
#[derive(Clone, Copy)]
pub struct RowContext<'a> {
    pub params: &'a SamplingParams,
    pub prompt: &'a [TokenId],
    /// New tokens so far.
    pub output: &'a [TokenId],
    /// Which of the request's outputs this is.
    pub choice: usize,
    /// Place of the token to be chosen. It picks the random number, so the same token must come
    /// with the same position however the request is scheduled.
    pub position: u64,
    /// What the output's grammar lets come next, if it has one.
    pub allowed: Option<&'a AllowedTokens>,
}

impl Sampler {
    pub fn new() -> Self {
        Self::default()
    }

    /// Chooses the next token. `logits`: [vocab], used up. A logit that is not a number forbids
    /// its token.
    pub fn sample(
        &mut self,
        logits: &mut [f32],
        row: &RowContext<'_>,
    ) -> Result<SampledToken, Error> {
        self.raw.clear();
        if row.params.logprobs.is_some() || row.allowed.is_some() {
            self.raw.extend_from_slice(logits);
        }
        let id = self.choose(logits, row)?;
        let logprobs = match row.params.logprobs {
            Some(top) => Some(logprobs::token_logprobs(&self.raw, id, top, &mut self.weights)?),
            None => None,
        };
        Ok(SampledToken { id, logprobs })
    }

    /// Log-probabilities of a prompt's token `next`, whose `logits`: [vocab] came from the token
    /// before it, and of the `top` most probable ones.
    pub fn prompt_logprobs(
        &mut self,
        logits: &[f32],
        next: TokenId,
        top: usize,
    ) -> Result<TokenLogprobs, Error> {
        logprobs::token_logprobs(logits, next, top, &mut self.weights)
    }

    fn choose(&mut self, logits: &mut [f32], row: &RowContext<'_>) -> Result<TokenId, Error> {
        process(logits, row, &mut self.counts);
        let mut sampled = self.sample_allowed(logits, row)?;
        if sampled.is_none() && row.allowed.is_some() {
            // Other options forbid all that the grammar allows; then the grammar alone counts, or
            // the output would not be what was asked for.
            logits.copy_from_slice(&self.raw);
            sampled = self.sample_allowed(logits, row)?;
        }
        let vocab = logits.len();
        sampled.ok_or_else(|| {
            Error::Step(format!("each of the {vocab} logits is forbidden or not a number"))
        })
    }

    /// `None` where every token is forbidden.
    fn sample_allowed(
        &mut self,
        scores: &mut [f32],
        row: &RowContext<'_>,
    ) -> Result<Option<TokenId>, Error> {
        if let Some(allowed) = row.allowed {
            allowed.forbid_others(scores);
        }
        let Some(strategy) = &row.params.strategy else {
            return Ok(self.chooser.choose(scores, row.pick()));
        };
        let is_allowed =
            |id: TokenId| scores.get(id as usize).is_some_and(|score| *score > f32::NEG_INFINITY);
        match strategy.sample(&row.logits_context(), scores) {
            Some(id) if !is_allowed(id) => Err(Error::BadStrategy { id, vocab: scores.len() }),
            sampled => Ok(sampled),
        }
    }
}

impl RowContext<'_> {
    fn logits_context(&self) -> LogitsContext<'_> {
        let &RowContext { params, prompt, output, choice, position, .. } = self;
        LogitsContext { prompt, output, choice, seed: params.seed, position }
    }

    /// How the token is sampled once all processors have been applied, without a strategy.
    pub(crate) fn pick(&self) -> Pick {
        let params = self.params;
        if !params.do_sample {
            return Pick::Greedy;
        }
        Pick::Draw(Draw {
            temperature: params.temperature,
            top_k: params.top_k,
            top_p: params.top_p,
            min_p: params.min_p,
            typical_p: params.typical_p,
            seed: params.seed,
            choice: self.choice as u32,
            position: self.position,
        })
    }
}

/// Applies what changes scores one by one, before anything looks at the whole distribution.
fn process(logits: &mut [f32], row: &RowContext<'_>, counts: &mut TokenCounts) {
    let &RowContext { params, prompt, output, .. } = row;
    logit_bias::logit_bias(logits, &params.logit_bias);
    repetition_penalty::repetition_penalty(
        logits,
        params.repetition_penalty,
        prompt,
        output,
        counts,
    );
    presence_frequency::presence_frequency(
        logits,
        params.presence_penalty,
        params.frequency_penalty,
        output,
        counts,
    );
    no_repeat_ngram::no_repeat_ngram(logits, params.no_repeat_ngram_size, prompt, output);
    bad_words::bad_words(logits, &params.bad_words, output);
    min_new_tokens::min_new_tokens(logits, params.min_new_tokens, &params.stop_ids, output);
    forced_eos::forced_eos(logits, params.forced_eos, params.max_new_tokens, output);
    let context = row.logits_context();
    for processor in &params.processors {
        processor.process(&context, logits);
    }
}
