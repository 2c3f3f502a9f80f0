//! The steps that were started and are not finished, with the executor that runs them: the one
//! place that knows what is under way.
//!
//! Steps finish in the order of their starts. A sequence may end while a step with a chunk of it
//! is under way; the chunk stays in its plan, and whoever reads the plan passes over it.

use std::collections::VecDeque;

use terrace_cache::{MoveId, PageId};
use terrace_tiers::Wait;

use crate::error::Error;
use crate::generate::executor::{Executor, StepOutput};
use crate::generate::sampling_params::SamplingParams;
use crate::generate::seq_cache::SeqCache;
use crate::generate::sequence::Sequences;
use crate::generate::step_plan::StepPlan;

pub(crate) struct StepsUnderWay {
    executor: Box<dyn Executor>,
    /// The oldest first.
    plans: VecDeque<StepPlan>,
}

/// An executor's error, and every step that was under way when it came.
pub(crate) struct LostSteps {
    pub(crate) error: Error,
    pub(crate) plans: VecDeque<StepPlan>,
}

impl StepsUnderWay {
    pub(crate) fn new(executor: Box<dyn Executor>) -> Self {
        let most = executor.max_under_way();
        // With a third one, a token could be an input two steps after it was sampled, still unseen.
        assert!((1..=2).contains(&most), "{most} steps under way, 1 or 2 are possible");
        StepsUnderWay { executor, plans: VecDeque::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }

    /// Whether one more may be started.
    pub(crate) fn has_room(&self) -> bool {
        self.plans.len() < self.executor.max_under_way()
    }

    pub(crate) fn samples_on_device(&self, sampling: &SamplingParams) -> bool {
        self.executor.samples_on_device(sampling)
    }

    pub(crate) fn prepare(&mut self, cache: &SeqCache) -> Result<(), Error> {
        self.executor.prepare(cache)
    }

    /// Starts a plan; one without chunks has moves at most, and no step is under way for it.
    pub(crate) fn start(&mut self, plan: StepPlan, seqs: &Sequences) -> Result<(), LostSteps> {
        assert!(self.has_room(), "{} steps are under way already", self.plans.len());
        let started = self.executor.start(&plan, seqs);
        if plan.chunks.is_empty() {
            assert!(plan.copies.is_empty(), "copies for nobody");
        } else {
            self.plans.push_back(plan);
        }
        started.map_err(|error| self.lose(error))
    }

    /// The moves that have arrived.
    pub(crate) fn arrived_moves(&mut self, wait: Wait) -> Result<Vec<MoveId>, LostSteps> {
        self.executor.arrived_moves(wait).map_err(|error| self.lose(error))
    }

    /// Waits for the oldest step; `None` when nothing is under way.
    pub(crate) fn finish(&mut self) -> Result<Option<(StepPlan, StepOutput)>, LostSteps> {
        if self.is_empty() {
            return Ok(None);
        }
        match self.executor.finish() {
            Ok(output) => Ok(self.plans.pop_front().map(|plan| (plan, output))),
            Err(error) => Err(self.lose(error)),
        }
    }

    pub(crate) fn read_pages(&mut self, pages: &[PageId]) -> Result<Vec<Vec<u8>>, Error> {
        self.executor.read_pages(pages)
    }

    /// Panics unless the chunks under way of each sequence lead from what is computed to what is
    /// started.
    pub(crate) fn check(&self, seqs: &Sequences) {
        for seq in seqs.iter() {
            let mut end = seq.computed();
            let chunks = self.plans.iter().flat_map(|plan| &plan.chunks);
            for chunk in chunks.filter(|chunk| chunk.seq == seq.id()) {
                assert_eq!(chunk.start, end, "{:?} has a gap or runs twice", seq.id());
                end = chunk.end();
            }
            assert_eq!(end, seq.started(), "{:?} is started and not under way", seq.id());
        }
    }

    fn lose(&mut self, error: Error) -> LostSteps {
        LostSteps { error, plans: std::mem::take(&mut self.plans) }
    }
}
