//! What traces of all engines share: a track of steps, and events of copies and of the tiers' work.
//!
//! Copies and the tiers' work overlap, so each is an event of its own, from the plan that begins it
//! until the engine learns that it is over.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Value, json};
use terrace_cache::{Direction, MoveId, PageMove, TierDone, TierTask, TierWork, WorkId};

use super::trace_file::TraceFile;

pub(crate) struct TraceTracks {
    file: TraceFile,
    began: Instant,
    page_bytes: usize,
    /// The tiers' names.
    tiers: Vec<String>,
    copies: BTreeMap<MoveId, &'static str>,
    works: BTreeMap<WorkId, (usize, &'static str)>,
}

/// What lies on one line.
#[derive(Clone, Copy)]
pub(crate) enum Track {
    Steps = 1,
    Layers = 2,
}

/// From when to when, in microseconds since the trace began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceSpan {
    pub start: f64,
    pub end: f64,
}

const PROCESS: u32 = 1;

impl TraceTracks {
    pub(crate) fn new(file: TraceFile, page_bytes: usize, tiers: Vec<String>) -> Self {
        file.add(json!({ "name": "process_name", "ph": "M", "pid": PROCESS,
            "args": { "name": "terrace" } }));
        let tracks = TraceTracks {
            file,
            began: Instant::now(),
            page_bytes,
            tiers,
            copies: BTreeMap::new(),
            works: BTreeMap::new(),
        };
        tracks.name(Track::Steps, "steps");
        tracks
    }

    pub(crate) fn name(&self, track: Track, name: &str) {
        self.file.add(json!({ "name": "thread_name", "ph": "M", "pid": PROCESS,
            "tid": track as u32, "args": { "name": name } }));
    }

    /// Copies begin; `is_awaited`: whether the step waits for it.
    pub(crate) fn copying(&mut self, begun: &PageMove, is_awaited: bool) {
        let name = match begun.direction {
            Direction::SwapOut => "to host",
            Direction::SwapIn => "to device",
        };
        let pages = begun.pages.len();
        let args = json!({ "pages": pages, "bytes": pages * self.page_bytes,
            "awaited": is_awaited });
        self.copies.insert(begun.id, name);
        self.edge("b", "copies", name, begun.id.0, args);
    }

    pub(crate) fn arrived(&mut self, id: MoveId) {
        if let Some(name) = self.copies.remove(&id) {
            self.edge("e", "copies", name, id.0, json!({}));
        }
    }

    pub(crate) fn working(&mut self, work: &TierWork) {
        let (name, pages) = match &work.task {
            TierTask::LookUp(keys) => ("look up", keys.len()),
            TierTask::Read(pages) => ("read", pages.len()),
            TierTask::Write(pages) => ("write", pages.len()),
            TierTask::RemovePrefix(_) => ("remove", 0),
        };
        self.works.insert(work.id, (work.tier.index(), name));
        self.edge("b", self.tier(work.tier.index()), name, work.id.0, json!({ "pages": pages }));
    }

    pub(crate) fn done(&mut self, done: &TierDone) {
        if let Some((tier, name)) = self.works.remove(&done.id) {
            let found = done.done.iter().filter(|done| **done).count();
            let args = json!({ "done": found, "failed": done.failed });
            self.edge("e", self.tier(tier), name, done.id.0, args);
        }
    }

    /// All copies under way are lost.
    pub(crate) fn lost(&mut self) {
        for id in self.copies.keys().copied().collect::<Vec<_>>() {
            self.arrived(id);
        }
    }

    /// Something that fills its track from one time to another.
    pub(crate) fn span(&self, track: Track, name: &str, span: TraceSpan, args: &Value) {
        self.file.add(json!({ "name": name, "ph": "X", "pid": PROCESS, "tid": track as u32,
            "ts": span.start, "dur": span.end - span.start, "args": args }));
    }

    /// Microseconds.
    pub(crate) fn now(&self) -> f64 {
        self.began.elapsed().as_nanos() as f64 / 1e3
    }

    fn tier(&self, index: usize) -> &str {
        self.tiers.get(index).map_or("tier", String::as_str)
    }

    /// The begin or the end of what may overlap with others of its category.
    fn edge(&self, phase: &str, category: &str, name: &str, id: u64, args: Value) {
        self.file.add(json!({ "name": name, "cat": category, "ph": phase, "id": id,
            "pid": PROCESS, "tid": Track::Steps as u32, "ts": self.now(), "args": args }));
    }
}
