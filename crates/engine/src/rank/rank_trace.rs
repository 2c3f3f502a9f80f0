//! What an engine that ranks reports to its trace.
//!
//! Steps are as the host sees them. Of a step that waits for pages from the host, a second track
//! shows the device: each layer, and before it how long its pages were awaited. Copies go on
//! meanwhile, so that a layer computes while the pages of later ones are on their way.

use serde_json::json;
use terrace_cache::{MoveId, TierDone};

use super::rank_plan::RankPlan;
use crate::trace::{TraceFile, TraceSpan, TraceTracks, Track};

pub(super) struct RankTrace {
    tracks: TraceTracks,
    began_us: f64,
}

/// When a layer of a step asked for its pages, and had them, on the device; in microseconds since
/// the step began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerTimes {
    pub asked_us: f64,
    pub began_us: f64,
    pub ended_us: f64,
}

impl RankTrace {
    pub fn new(file: TraceFile, page_bytes: usize, tiers: Vec<String>) -> Self {
        let tracks = TraceTracks::new(file, page_bytes, tiers);
        tracks.name(Track::Layers, "layers on the device");
        RankTrace { tracks, began_us: 0.0 }
    }

    /// A plan is about to be carried out.
    pub fn planned(&mut self, plan: &RankPlan) {
        plan.promotions.iter().for_each(|begun| self.tracks.copying(begun, true));
        plan.demotions.iter().for_each(|begun| self.tracks.copying(begun, false));
        plan.tier_work.iter().for_each(|work| self.tracks.working(work));
        self.began_us = self.tracks.now();
    }

    /// Its step is computed, and what it waited for has arrived.
    pub fn computed(&mut self, plan: &RankPlan, layers: &[LayerTimes]) {
        let (start, end) = (self.began_us, self.tracks.now());
        let tokens: usize = plan.chunks.iter().map(|chunk| chunk.history.len()).sum();
        let candidates: usize = plan.chunks.iter().map(|chunk| chunk.candidates.len()).sum();
        let args = json!({ "users": plan.chunks.len(), "tokens": tokens,
            "candidates": candidates, "awaited_copies": plan.promotions.len() });
        self.tracks.span(Track::Steps, "rank", TraceSpan { start, end }, &args);
        for (layer, times) in layers.iter().enumerate() {
            let args = json!({ "layer": layer });
            let span = |from: f64, to: f64| TraceSpan { start: start + from, end: start + to };
            let LayerTimes { asked_us, began_us, ended_us } = *times;
            self.tracks.span(Track::Layers, "wait for pages", span(asked_us, began_us), &args);
            self.tracks.span(Track::Layers, "layer", span(began_us, ended_us), &args);
        }
        plan.promotions.iter().for_each(|begun| self.tracks.arrived(begun.id));
    }

    pub fn arrived(&mut self, id: MoveId) {
        self.tracks.arrived(id);
    }

    pub fn done(&mut self, done: &TierDone) {
        self.tracks.done(done);
    }

    /// All copies under way are lost.
    pub fn lost(&mut self) {
        self.tracks.lost();
    }
}
