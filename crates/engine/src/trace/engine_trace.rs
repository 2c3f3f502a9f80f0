//! What an engine reports to its trace, as the host sees it.
//!
//! Steps are one track: a step that was started while another was under way is shown from that
//! one's end on. Copies and the tiers' work overlap, so each is an event of its own, from the plan
//! that begins it until the engine learns that it is over.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use serde_json::{Value, json};
use terrace_cache::{Direction, MoveId, TierDone, TierTask, WorkId};

use super::trace_file::TraceFile;
use crate::generate::step_plan::StepPlan;

pub(crate) struct EngineTrace {
    file: TraceFile,
    began: Instant,
    page_bytes: usize,
    /// The tiers' names.
    tiers: Vec<String>,
    /// Steps under way: when each was started, and what it does.
    steps: VecDeque<(f64, Value)>,
    last_step_ended: f64,
    copies: BTreeMap<MoveId, &'static str>,
    works: BTreeMap<WorkId, (usize, &'static str)>,
}

const PROCESS: u32 = 1;
const STEPS: u32 = 1;

impl EngineTrace {
    pub(crate) fn new(file: TraceFile, page_bytes: usize, tiers: Vec<String>) -> Self {
        file.add(json!({ "name": "process_name", "ph": "M", "pid": PROCESS,
            "args": { "name": "terrace" } }));
        file.add(json!({ "name": "thread_name", "ph": "M", "pid": PROCESS, "tid": STEPS,
            "args": { "name": "steps" } }));
        EngineTrace {
            file,
            began: Instant::now(),
            page_bytes,
            tiers,
            steps: VecDeque::new(),
            last_step_ended: 0.0,
            copies: BTreeMap::new(),
            works: BTreeMap::new(),
        }
    }

    /// A plan is about to be started.
    pub(crate) fn planned(&mut self, plan: &StepPlan) {
        let now = self.now();
        for begun in &plan.moves {
            let name = match begun.direction {
                Direction::SwapOut => "to host",
                Direction::SwapIn => "to device",
            };
            let pages = begun.pages.len();
            let args = json!({ "pages": pages, "bytes": pages * self.page_bytes,
                "awaited": plan.awaited.contains(&begun.id) });
            self.copies.insert(begun.id, name);
            self.span("b", "copies", name, begun.id.0, now, args);
        }
        for work in &plan.tier_work {
            let (name, pages) = match &work.task {
                TierTask::LookUp(keys) => ("look up", keys.len()),
                TierTask::Read(pages) => ("read", pages.len()),
                TierTask::Write(pages) => ("write", pages.len()),
                TierTask::RemovePrefix(_) => ("remove", 0),
            };
            self.works.insert(work.id, (work.tier.index(), name));
            let args = json!({ "pages": pages });
            self.span("b", self.tier(work.tier.index()), name, work.id.0, now, args);
        }
        if !plan.chunks.is_empty() {
            let prompt_rows = plan.chunks.iter().filter(|chunk| 1 < chunk.tokens);
            let args = json!({
                "rows": plan.tokens(),
                "prompt_rows": prompt_rows.map(|chunk| chunk.tokens).sum::<usize>(),
                "sequences": plan.chunks.len(),
                "awaited_copies": plan.awaited.len(),
            });
            self.steps.push_back((now, args));
        }
    }

    /// The oldest step is finished.
    pub(crate) fn finished(&mut self) {
        let Some((started, args)) = self.steps.pop_front() else { return };
        let (start, end) = (started.max(self.last_step_ended), self.now());
        self.last_step_ended = end;
        let name = match args["prompt_rows"].as_u64() {
            Some(0) => "decode",
            _ => "prefill",
        };
        self.file.add(json!({ "name": name, "ph": "X", "pid": PROCESS, "tid": STEPS,
            "ts": start, "dur": end - start, "args": args }));
    }

    pub(crate) fn arrived(&mut self, id: MoveId) {
        if let Some(name) = self.copies.remove(&id) {
            self.span("e", "copies", name, id.0, self.now(), json!({}));
        }
    }

    pub(crate) fn done(&mut self, done: &TierDone) {
        if let Some((tier, name)) = self.works.remove(&done.id) {
            let found = done.done.iter().filter(|done| **done).count();
            let args = json!({ "done": found, "failed": done.failed });
            self.span("e", self.tier(tier), name, done.id.0, self.now(), args);
        }
    }

    /// All steps and copies under way are lost.
    pub(crate) fn lost(&mut self) {
        self.steps.clear();
        for id in self.copies.keys().copied().collect::<Vec<_>>() {
            self.arrived(id);
        }
    }

    fn tier(&self, index: usize) -> &str {
        self.tiers.get(index).map_or("tier", String::as_str)
    }

    /// The begin or the end of what may overlap with others of its category.
    fn span(&self, phase: &str, category: &str, name: &str, id: u64, ts: f64, args: Value) {
        self.file.add(json!({ "name": name, "cat": category, "ph": phase, "id": id,
            "pid": PROCESS, "tid": STEPS, "ts": ts, "args": args }));
    }

    /// Microseconds.
    fn now(&self) -> f64 {
        self.began.elapsed().as_nanos() as f64 / 1e3
    }
}
