//! What an engine that generates reports to its trace, as the host sees it.
//!
//! A step that was started while another was under way is shown from that one's end on.

use std::collections::VecDeque;

use serde_json::{Value, json};
use terrace_cache::{MoveId, TierDone};

use super::trace_file::TraceFile;
use super::trace_tracks::{TraceSpan, TraceTracks, Track};
use crate::generate::step_plan::StepPlan;

pub(crate) struct EngineTrace {
    tracks: TraceTracks,
    /// Steps under way: when each was started, and what it does.
    steps: VecDeque<(f64, Value)>,
    last_step_ended: f64,
}

impl EngineTrace {
    pub(crate) fn new(file: TraceFile, page_bytes: usize, tiers: Vec<String>) -> Self {
        let tracks = TraceTracks::new(file, page_bytes, tiers);
        EngineTrace { tracks, steps: VecDeque::new(), last_step_ended: 0.0 }
    }

    /// A plan is about to be started.
    pub(crate) fn planned(&mut self, plan: &StepPlan) {
        for begun in &plan.moves {
            self.tracks.copying(begun, plan.awaited.contains(&begun.id));
        }
        plan.tier_work.iter().for_each(|work| self.tracks.working(work));
        if !plan.chunks.is_empty() {
            let prompt_rows = plan.chunks.iter().filter(|chunk| 1 < chunk.tokens);
            let args = json!({
                "rows": plan.tokens(),
                "prompt_rows": prompt_rows.map(|chunk| chunk.tokens).sum::<usize>(),
                "sequences": plan.chunks.len(),
                "awaited_copies": plan.awaited.len(),
            });
            self.steps.push_back((self.tracks.now(), args));
        }
    }

    /// The oldest step is finished.
    pub(crate) fn finished(&mut self) {
        let Some((started, args)) = self.steps.pop_front() else { return };
        let (start, end) = (started.max(self.last_step_ended), self.tracks.now());
        self.last_step_ended = end;
        let name = match args["prompt_rows"].as_u64() {
            Some(0) => "decode",
            _ => "prefill",
        };
        self.tracks.span(Track::Steps, name, TraceSpan { start, end }, &args);
    }

    pub(crate) fn arrived(&mut self, id: MoveId) {
        self.tracks.arrived(id);
    }

    pub(crate) fn done(&mut self, done: &TierDone) {
        self.tracks.done(done);
    }

    /// All steps and copies under way are lost.
    pub(crate) fn lost(&mut self) {
        self.steps.clear();
        self.tracks.lost();
    }
}
