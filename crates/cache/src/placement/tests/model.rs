//! Entries in a list without any order, searched and sorted whenever something is asked.
//!
//! The sketch is the real one: what it counts has its own tests.

use crate::placement::frequency_sketch::FrequencySketch;
use crate::placement::{PlacementRule, Retention};

pub(super) struct Model {
    rule: PlacementRule,
    capacity: usize,
    entries: Vec<ModelEntry>,
    sketch: FrequencySketch,
    /// B1 and B2, the longest gone first.
    ghosts: [Vec<u64>; 2],
    p: f64,
    coming: Option<(u64, f64)>,
    turn: u64,
    now_ms: u64,
}

#[derive(Clone)]
pub(super) struct ModelEntry {
    key: u32,
    pub(super) content: u64,
    claims: Vec<Retention>,
    pub(super) idle_since: Option<u64>,
    /// Uses for LFU as of when it became idle, halved since; 0 and 1 for T1 and T2.
    rank: u8,
}

impl Model {
    pub(super) fn new(rule: PlacementRule, capacity: usize) -> Self {
        Model {
            rule,
            capacity,
            entries: Vec::new(),
            sketch: FrequencySketch::new(capacity),
            ghosts: [Vec::new(), Vec::new()],
            p: 0.0,
            coming: None,
            turn: 0,
            now_ms: 0,
        }
    }

    pub(super) fn keys(&self, is_wanted: impl Fn(&ModelEntry) -> bool) -> Vec<u32> {
        self.entries.iter().filter(|entry| is_wanted(entry)).map(|entry| entry.key).collect()
    }

    pub(super) fn add(&mut self, key: u32, content: u64, retention: Retention) {
        self.add_held(key, content, retention);
        self.release(key);
    }

    pub(super) fn add_held(&mut self, key: u32, content: u64, retention: Retention) {
        let shift = match self.coming.take() {
            Some((coming, shift)) if coming == content => shift,
            _ => self.shift(content),
        };
        self.p = (self.p + shift).clamp(0.0, self.capacity as f64);
        let is_ghost = self.ghosts.iter().any(|ghosts| ghosts.contains(&content));
        self.ghosts.iter_mut().for_each(|ghosts| ghosts.retain(|ghost| *ghost != content));
        let rank = u8::from(is_ghost && self.rule == PlacementRule::Arc);
        self.entries.push(ModelEntry {
            key,
            content,
            claims: vec![retention],
            idle_since: None,
            rank,
        });
        self.cut_ghosts();
        self.count(content);
    }

    pub(super) fn hold(&mut self, key: u32) {
        let is_arc = self.rule == PlacementRule::Arc;
        let entry = self.entry(key);
        entry.idle_since = None;
        entry.rank = if is_arc { 1 } else { entry.rank };
        let content = entry.content;
        self.count(content);
    }

    pub(super) fn release(&mut self, key: u32) {
        self.turn += 1;
        let (turn, content) = (self.turn, self.entry(key).content);
        let estimate = self.sketch.estimate(content);
        let is_lfu = self.rule == PlacementRule::TinyLfu;
        let entry = self.entry(key);
        entry.idle_since = Some(turn);
        entry.rank = if is_lfu { estimate } else { entry.rank };
    }

    /// Every claim is remembered, but those that another one makes pointless: to withdraw that one
    /// does not bring them back.
    pub(super) fn retain(&mut self, key: u32, claim: Retention) {
        let claims = &mut self.entry(key).claims;
        if !claims.iter().any(|known| outlasts(*known, claim)) {
            claims.retain(|known| !outlasts(claim, *known));
            claims.push(claim);
        }
    }

    pub(super) fn withdraw(&mut self, key: u32, claim: Retention) {
        let claims = &mut self.entry(key).claims;
        claims.retain(|known| *known != claim);
        if claims.is_empty() {
            claims.push(Retention::default());
        }
    }

    pub(super) fn remove(&mut self, key: u32) {
        let (content, rank) = (self.entry(key).content, self.entry(key).rank);
        self.entries.retain(|entry| entry.key != key);
        if self.rule == PlacementRule::Arc {
            self.ghosts.iter_mut().for_each(|ghosts| ghosts.retain(|ghost| *ghost != content));
            self.ghosts[usize::from(rank)].push(content);
            self.cut_ghosts();
        }
    }

    pub(super) fn admits(&mut self, content: u64, retention: Retention, now_ms: u64) -> bool {
        let Some(victim) = self.order(now_ms).first().copied() else { return true };
        let victim = self.entry(victim).clone();
        let (new, old) = (self.class(&[retention]), self.class(&victim.claims));
        let is_frequent = self.rule != PlacementRule::TinyLfu
            || old == -1
            || victim.rank <= self.sketch.estimate(content) + 1;
        let is_admitted = old < new || (old == new && is_frequent);
        if !is_admitted {
            self.count(content);
        } else {
            self.coming = Some((content, self.shift(content)));
        }
        is_admitted
    }

    /// All idle entries as they would leave.
    pub(super) fn order(&mut self, now_ms: u64) -> Vec<u32> {
        self.now_ms = self.now_ms.max(now_ms);
        let mut rest = self.entries.clone();
        let mut order = Vec::new();
        while let Some(next) = self.first(&rest) {
            order.push(next);
            rest.retain(|entry| entry.key != next);
        }
        order
    }

    /// Who leaves first of `entries`, which are all there are.
    fn first(&self, entries: &[ModelEntry]) -> Option<u32> {
        let idle = || entries.iter().filter(|entry| entry.idle_since.is_some());
        let lowest = idle().map(|entry| self.class(&entry.claims)).min()?;
        let of_class = || idle().filter(|entry| self.class(&entry.claims) == lowest);
        let oldest = |rank: Option<u8>| {
            let of_rank = of_class().filter(|entry| rank.is_none_or(|rank| entry.rank == rank));
            of_rank.min_by_key(|entry| entry.idle_since).map(|entry| entry.key)
        };
        if lowest == -1 {
            return oldest(None);
        }
        match self.rule {
            PlacementRule::Lru => oldest(None),
            PlacementRule::TinyLfu => oldest(of_class().map(|entry| entry.rank).min()),
            PlacementRule::Arc => {
                let t1 = entries.iter().filter(|entry| entry.rank == 0).count() as f64;
                let shift = self.coming.map_or(0.0, |(_, shift)| shift);
                let p = (self.p + shift).clamp(0.0, self.capacity as f64);
                let from_t1 = p < t1 || (shift < 0.0 && t1 == p);
                let [one, other] = if from_t1 { [0, 1] } else { [1, 0] };
                oldest(Some(one)).or_else(|| oldest(Some(other)))
            }
        }
    }

    fn class(&self, claims: &[Retention]) -> i32 {
        let is_alive = |claim: &&Retention| claim.expires_ms.is_none_or(|end| self.now_ms < end);
        claims.iter().filter(is_alive).map(|claim| i32::from(claim.priority)).max().unwrap_or(-1)
    }

    fn shift(&self, content: u64) -> f64 {
        let [b1, b2] = &self.ghosts;
        if b1.contains(&content) {
            (b2.len() as f64 / b1.len() as f64).max(1.0)
        } else if b2.contains(&content) {
            -(b1.len() as f64 / b2.len() as f64).max(1.0)
        } else {
            0.0
        }
    }

    fn cut_ghosts(&mut self) {
        let t1 = self.entries.iter().filter(|entry| entry.rank == 0).count();
        let [b1, b2] = &mut self.ghosts;
        let too_many = (t1 + b1.len()).saturating_sub(self.capacity).min(b1.len());
        b1.drain(..too_many);
        let all = self.entries.len() + b1.len() + b2.len();
        let too_many = all.saturating_sub(2 * self.capacity).min(b2.len());
        b2.drain(..too_many);
    }

    fn count(&mut self, content: u64) {
        if self.sketch.count(content) && self.rule == PlacementRule::TinyLfu {
            self.entries.iter_mut().for_each(|entry| entry.rank /= 2);
        }
    }

    fn entry(&mut self, key: u32) -> &mut ModelEntry {
        self.entries.iter_mut().find(|entry| entry.key == key).expect("a key that was added")
    }
}

fn outlasts(one: Retention, other: Retention) -> bool {
    let end = |claim: Retention| claim.expires_ms.unwrap_or(u64::MAX);
    end(other) <= end(one) && other.priority <= one.priority
}
