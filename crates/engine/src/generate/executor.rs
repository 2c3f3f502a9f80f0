//! Who runs plans: the device, or a simulation.

use terrace_cache::policy::Placement;
use terrace_cache::{MoveId, PageId};

use terrace_tiers::Wait;

use crate::error::Error;
use crate::generate::sampling_params::SamplingParams;
use crate::generate::seq_cache::SeqCache;
use crate::generate::seq_id::SeqId;
use crate::generate::sequence::Sequences;
use crate::generate::step_plan::StepPlan;
use crate::generate::token_event::TokenLogprobs;
use terrace_cache::TokenId;

/// Runs steps one after the other. A step that was started and is not finished is under way, and
/// while it is, the host may plan and start the next one.
///
/// Steps have their effects in the order of their starts: a step finds in the pages all that the
/// steps started before it write, and changes nothing that they still read. So the engine may give
/// a page away while a step under way uses it.
///
/// Moves go on beside the steps. A move reads and writes after the steps that were started before
/// it and with it, and steps started after its arrival see what it wrote; so does a step that
/// awaits it, and those after that one.
///
/// After an error nothing is under way. Slots that the lost steps were to fill, or copy to, hold
/// anything, and so does what the lost moves were to write; all others are as before. A move that
/// a finished step has awaited is not lost.
///
/// It may be dropped with steps under way; what they sample is of no use then.
pub trait Executor: Send {
    /// How many steps may be under way: 1, or 2 if the device works while the host goes on.
    fn max_under_way(&self) -> usize;

    /// Whether a token sampled in this way can be an input of the next step before the host has
    /// seen it, as [`ChunkInput::SampledBefore`](crate::ChunkInput) asks.
    fn samples_on_device(&self, sampling: &SamplingParams) -> bool;

    /// Whether generated tokens are computed otherwise than a prompt's, so that a page of the one
    /// is no page of the other.
    fn distinguishes_row_kinds(&self) -> bool {
        false
    }

    /// Whether steps report the embeddings of prompts.
    fn gives_embeddings(&self) -> bool;

    /// Makes ready for sequences with this cache, before the first of them is planned; an error
    /// refuses them alone.
    fn prepare(&mut self, _cache: &SeqCache) -> Result<(), Error> {
        Ok(())
    }

    /// Begins a step, unless the plan has no chunks: makes the copies, computes the chunks into
    /// their slots and samples where they say. Then begins the plan's moves, those that are awaited
    /// before it. Less than `max_under_way` steps are under way.
    ///
    /// All that is needed of `seqs` is taken now: they change before the step is finished, and
    /// some may be gone. What is sampled for those that are gone is ignored.
    fn start(&mut self, plan: &StepPlan, seqs: &Sequences) -> Result<(), Error>;

    /// Waits for the oldest step under way and returns what it sampled. There is one.
    fn finish(&mut self) -> Result<StepOutput, Error>;

    /// The moves that have arrived since the last call. With `Wait::ForOne` some are under way, and
    /// it waits until one of them has arrived.
    fn arrived_moves(&mut self, wait: Wait) -> Result<Vec<MoveId>, Error>;

    /// The bytes of each of some pages, as all started steps leave them; waits for these.
    fn read_pages(&mut self, pages: &[PageId]) -> Result<Vec<Vec<u8>>, Error>;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepOutput {
    /// One for each chunk that samples or whose sequence wants prompt log-probabilities, in any
    /// order.
    pub sampled: Vec<Sampled>,
    /// One for each chunk that reaches the end of a prompt whose embedding is wanted.
    pub embeddings: Vec<(SeqId, Vec<f32>)>,
    /// One for each chunk after the first whose sequence keeps a log: its slots in each layer.
    pub placements: Vec<(SeqId, Vec<Placement>)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    pub seq: SeqId,
    /// For each position whose output the chunk wants: one token for each of the sequence's
    /// choices, or why none could be sampled, which ends this sequence and no other.
    pub outputs: Vec<Result<Vec<SampledToken>, NoToken>>,
    /// If asked: of the prompt tokens at `start + 1..=end`, as far as the prompt goes; each comes
    /// from the row before it.
    pub prompt_logprobs: Option<Vec<TokenLogprobs>>,
}

/// Why no token could be sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoToken {
    /// The request's options forbid every one.
    Forbidden,
    Failed(String),
}

impl From<String> for NoToken {
    fn from(why: String) -> Self {
        NoToken::Failed(why)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct SampledToken {
    pub id: TokenId,
    pub logprobs: Option<TokenLogprobs>,
}
