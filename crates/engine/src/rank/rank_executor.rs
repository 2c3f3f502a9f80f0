//! Who computes plans: a device, or a simulation.

use terrace_cache::{MoveId, PageMove};

use super::rank_job::{JobId, RankJobs};
use super::rank_plan::RankPlan;
use super::scored_row::ScoredRow;
use crate::error::Error;

/// What came of a chunk's candidates.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkResult {
    pub job: JobId,
    /// Of a model that ranks: one candidate after the other.
    pub logits: Vec<f32>,
    /// Of a model that retrieves: the best first.
    pub found: Vec<ScoredRow>,
}

impl ChunkResult {
    /// Of the candidates of all chunks, one chunk after the other, with so many logits each.
    pub fn of_logits(plan: &RankPlan, logits: &[f32], outputs: usize) -> Vec<ChunkResult> {
        let mut first = 0;
        let mut scores = Vec::new();
        for chunk in plan.chunks.iter().filter(|chunk| !chunk.candidates.is_empty()) {
            let end = first + chunk.candidates.len() * outputs;
            let (job, logits) = (chunk.job, logits[first..end].to_vec());
            scores.push(ChunkResult { job, logits, found: Vec::new() });
            first = end;
        }
        scores
    }
}

pub trait RankExecutor: Send {
    /// Begins copies to the host, beside the steps.
    fn start_moves(&mut self, moves: &[PageMove]) -> Result<(), Error>;

    /// Copies to the host that have arrived since the last call.
    fn arrived(&mut self) -> Result<Vec<MoveId>, Error>;

    /// Computes the chunks of a plan: keys and values of new tokens go to their pages, and each
    /// chunk with candidates gives what came of them. Promotions are carried out before their pages
    /// are used. After an error the pages of the plan's jobs hold anything, and nothing moves.
    fn run(&mut self, plan: &RankPlan, jobs: &RankJobs) -> Result<Vec<ChunkResult>, Error>;

    /// How long the device was at work on the last step, where it is another than the host.
    fn device_us(&self) -> u64 {
        0
    }
}
