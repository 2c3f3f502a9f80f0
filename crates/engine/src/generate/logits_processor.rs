//! Rules of one's own about the next token's logits.

use terrace_cache::TokenId;
use terrace_kernels::sampling::uniform;

/// Changes the scores of the next token before one is sampled.
///
/// It runs on a worker thread for each token of the requests that carry it: keep it short. It must
/// be a function of its arguments alone, so that a preempted and resumed request gives the same
/// output.
pub trait LogitsProcessor: Send + Sync {
    /// `logits` has one score for each token of the vocabulary.
    fn process(&self, context: &LogitsContext<'_>, logits: &mut [f32]);
}

/// What a processor or a [`SamplingStrategy`](crate::SamplingStrategy) may know.
#[derive(Clone, Copy, Debug)]
pub struct LogitsContext<'a> {
    pub prompt: &'a [TokenId],
    /// New tokens so far.
    pub output: &'a [TokenId],
    /// Which of the request's outputs this is.
    pub choice: usize,
    /// The request's seed.
    pub seed: u64,
    /// Of the token to be sampled.
    pub position: u64,
}

impl LogitsContext<'_> {
    /// A random number in [0, 1), drawn from the seed, the choice and the position alone.
    pub fn uniform(&self) -> f64 {
        uniform(self.seed, self.choice as u32, self.position)
    }
}
