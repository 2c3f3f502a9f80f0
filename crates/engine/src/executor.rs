//! Who runs a plan: the device, or a simulation.

use crate::error::Error;
use crate::event::TokenLogprobs;
use crate::plan::StepPlan;
use crate::request::TokenId;
use crate::sequence::{SeqId, Sequences};

pub trait Executor: Send {
    /// Makes the plan's copies, computes its chunks into their slots and samples where it says.
    ///
    /// On an error the slots of the plan's chunks hold anything; all others are as before.
    fn run(&mut self, plan: &StepPlan, seqs: &Sequences) -> Result<StepOutput, Error>;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepOutput {
    /// One for each chunk that samples or whose sequence wants prompt log-probabilities, in the
    /// order of the chunks.
    pub sampled: Vec<Sampled>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    pub seq: SeqId,
    /// One for each of the sequence's choices if the chunk samples, else none; or why none could
    /// be chosen, which ends this sequence and no other.
    pub tokens: Result<Vec<SampledToken>, String>,
    /// If asked: of the prompt tokens at `start + 1..=end`, as far as the prompt goes; each comes
    /// from the row before it.
    pub prompt_logprobs: Option<Vec<TokenLogprobs>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SampledToken {
    pub id: TokenId,
    pub logprobs: Option<TokenLogprobs>,
}
