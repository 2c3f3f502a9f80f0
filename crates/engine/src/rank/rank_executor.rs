//! Who computes plans: a device, or a simulation.

use terrace_cache::{MoveId, PageMove};

use super::chunk_result::ChunkResult;
use super::loaded_model::LoadedModel;
use super::rank_job::RankJobs;
use super::rank_plan::RankPlan;
use super::rank_trace::LayerTimes;
use crate::error::Error;

pub trait RankExecutor: Send {
    /// Begins copies to the host, beside the steps.
    fn start_moves(&mut self, moves: &[PageMove]) -> Result<(), Error>;

    /// Copies to the host that have arrived since the last call.
    fn arrived(&mut self) -> Result<Vec<MoveId>, Error>;

    /// Computes the chunks of a plan: keys and values of new tokens go to their pages, and each
    /// chunk with candidates gives what came of them. Promotions are carried out before their pages
    /// are used. After an error the pages of the plan's jobs hold anything, and nothing moves.
    fn run(&mut self, plan: &RankPlan, jobs: &RankJobs) -> Result<Vec<ChunkResult>, Error>;

    /// From now on steps are another checkpoint's. After an error they are still that before.
    fn replace(&mut self, loaded: LoadedModel) -> Result<(), Error>;

    /// From now on it is known when layers of steps that wait for pages computed, where it can be.
    fn time_layers(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Of the last step, if it waited for pages.
    fn layer_times(&self) -> &[LayerTimes] {
        &[]
    }

    /// How long the device was at work on the last step, where it is another than the host.
    fn device_us(&self) -> u64 {
        0
    }
}
