//! What the model itself thought of a token.

use terrace_kernels::sampling::{kth_largest, max, weigh};

use crate::error::Error;
use crate::generate::token_event::TokenLogprobs;
use terrace_cache::TokenId;

/// Log-probabilities of `token` and of the `top` most probable tokens; on ties the lower id is
/// first. `logits` are the model's own, before any processor. `scratch` holds anything.
pub fn token_logprobs(
    logits: &[f32],
    token: TokenId,
    top: usize,
    scratch: &mut Vec<f32>,
) -> Result<TokenLogprobs, Error> {
    let best = max(logits);
    let Some(&logit) = logits.get(token as usize) else {
        return Err(Error::UnknownToken { id: token, vocab: logits.len() });
    };
    if !best.is_finite() {
        return Err(Error::Step(format!("the best logit is {best}, not a finite number")));
    }
    let log_total = weigh(logits, scratch).ln();
    let logprob = |logit: f32| {
        if logit.is_nan() {
            return f32::NEG_INFINITY;
        }
        (f64::from(logit) - f64::from(best) - log_total) as f32
    };
    let mut ranked = top_logits(logits, top, scratch);
    for (_, value) in &mut ranked {
        *value = logprob(*value);
    }
    Ok(TokenLogprobs { logprob: logprob(logit), top: ranked })
}

fn top_logits(logits: &[f32], top: usize, scratch: &mut Vec<f32>) -> Vec<(TokenId, f32)> {
    if top == 0 {
        return Vec::new();
    }
    let floor = kth_largest(logits, top, scratch);
    let ids = 0..logits.len() as TokenId;
    let mut ranked: Vec<_> =
        ids.zip(logits.iter().copied()).filter(|(_, logit)| *logit >= floor).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranked.truncate(top);
    ranked
}
