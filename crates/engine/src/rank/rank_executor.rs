//! Who computes plans: a device, or a simulation.

use super::rank_job::{JobId, RankJobs};
use super::rank_plan::RankPlan;
use crate::error::Error;

/// Logits of a chunk's candidates, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkScores {
    pub job: JobId,
    pub logits: Vec<f32>,
}

pub trait RankExecutor: Send {
    /// Computes the chunks of a plan: keys and values of new tokens go to their pages, and each
    /// chunk with candidates gives their logits. After an error the pages of the plan's jobs hold
    /// anything.
    fn run(&mut self, plan: &RankPlan, jobs: &RankJobs) -> Result<Vec<ChunkScores>, Error>;
}
