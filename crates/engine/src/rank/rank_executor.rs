//! Who computes plans: a device, or a simulation.

use terrace_cache::{MoveId, PageMove};

use super::rank_job::{JobId, RankJobs};
use super::rank_plan::RankPlan;
use crate::error::Error;

/// Logits of a chunk's candidates, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkScores {
    pub job: JobId,
    pub logits: Vec<f32>,
}

impl ChunkScores {
    /// Of the candidates of all chunks, one chunk after the other, with so many logits each.
    pub fn of_chunks(plan: &RankPlan, logits: &[f32], outputs: usize) -> Vec<ChunkScores> {
        let mut first = 0;
        let mut scores = Vec::new();
        for chunk in plan.chunks.iter().filter(|chunk| !chunk.candidates.is_empty()) {
            let end = first + chunk.candidates.len() * outputs;
            scores.push(ChunkScores { job: chunk.job, logits: logits[first..end].to_vec() });
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
    /// chunk with candidates gives their logits. Promotions are carried out before their pages are
    /// used. After an error the pages of the plan's jobs hold anything, and nothing moves.
    fn run(&mut self, plan: &RankPlan, jobs: &RankJobs) -> Result<Vec<ChunkScores>, Error>;

    /// How long the device was at work on the last step, where it is another than the host.
    fn device_us(&self) -> u64 {
        0
    }
}
