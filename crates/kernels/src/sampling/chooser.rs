//! Samples tokens on the CPU.

use super::argmax::argmax;
use super::draw::draw;
use super::min_p::min_p;
use super::pick::{Draw, Pick};
use super::softmax::weigh;
use super::temperature::temperature;
use super::top_k::top_k;
use super::top_p::{TopPScratch, top_p};
use super::typical_p::{TypicalScratch, typical_p};
use crate::random::philox::uniform;

/// Holds nothing but scratch, which grows to the vocabulary and is then reused: what is sampled is
/// a function of the logits and the [`Pick`].
#[derive(Default)]
pub struct Chooser {
    filters: Filters,
    weights: Vec<f32>,
}

/// Scores to draw from, in rising order of their tokens' ids; -inf where a filter has dropped one.
pub struct Narrowed<'a> {
    /// Relative to the best one, over the temperature.
    pub scores: &'a [f32],
    /// Whose scores they are; empty if a score's place is its token's id.
    pub ids: &'a [u32],
}

impl Chooser {
    /// The sampled token; `None` if every logit is -inf or not a number. `logits`: `[vocab]`, used
    /// up.
    pub fn choose(&mut self, logits: &mut [f32], pick: Pick) -> Option<u32> {
        let number = match pick {
            Pick::Greedy => 0.0,
            Pick::Draw(draw) => uniform(draw.seed, draw.choice, draw.position),
        };
        self.choose_with(logits, pick, number)
    }

    /// As `choose`, with a random number of the caller's from [0, 1): as it rises, so do the ids.
    pub fn choose_with(&mut self, logits: &mut [f32], pick: Pick, number: f64) -> Option<u32> {
        let best = argmax(logits)?;
        let max = logits[best];
        match pick {
            // A score may be infinite, to force its token; no distribution is left then.
            Pick::Draw(params) if max < f32::INFINITY => {
                let Narrowed { scores, ids } = self.filters.narrow(logits, max, &params);
                let total = weigh(scores, &mut self.weights);
                let drawn = draw(&self.weights, total, number);
                Some(ids.get(drawn).copied().unwrap_or(drawn as u32))
            }
            _ => Some(best as u32),
        }
    }

    /// Applies temperature and filters; `max` is the best of the logits.
    pub fn narrow<'a>(&'a mut self, logits: &'a mut [f32], max: f32, draw: &Draw) -> Narrowed<'a> {
        self.filters.narrow(logits, max, draw)
    }
}

#[derive(Default)]
struct Filters {
    /// The tokens that top-k left; empty when it is off.
    kept_ids: Vec<u32>,
    best: Vec<f32>,
    top_p: TopPScratch,
    typical: TypicalScratch,
}

impl Filters {
    fn narrow<'a>(&'a mut self, logits: &'a mut [f32], max: f32, draw: &Draw) -> Narrowed<'a> {
        temperature(logits, max, draw.temperature);
        self.kept_ids.clear();
        let mut scores = logits;
        if draw.top_k > 0 {
            top_k(scores, draw.top_k, &mut self.best);
            scores = gather(scores, &mut self.kept_ids);
        }
        top_p(scores, draw.top_p, &mut self.top_p);
        min_p(scores, draw.min_p);
        typical_p(scores, draw.typical_p, &mut self.typical);
        Narrowed { scores, ids: &self.kept_ids }
    }
}

/// Moves the scores of allowed tokens to the front, and their ids to `ids`.
fn gather<'a>(scores: &'a mut [f32], ids: &mut Vec<u32>) -> &'a mut [f32] {
    for id in 0..scores.len() {
        if scores[id] > f32::NEG_INFINITY {
            scores[ids.len()] = scores[id];
            ids.push(id as u32);
        }
    }
    &mut scores[..ids.len()]
}
