//! ARC as its paper has it, line by line, and the level that must choose as it does.

use terrace_testkit::Rng;

use crate::placement::{Placement, PlacementRule, Retention};

/// Figure 4 of the paper. Lists are from LRU to MRU.
#[derive(Default)]
struct PaperArc {
    c: usize,
    p: f64,
    t1: Vec<u64>,
    t2: Vec<u64>,
    b1: Vec<u64>,
    b2: Vec<u64>,
}

fn take(list: &mut Vec<u64>, x: u64) -> bool {
    let at = list.iter().position(|page| *page == x);
    at.map(|at| list.remove(at)).is_some()
}

impl PaperArc {
    /// Returns whether it was a hit.
    fn request(&mut self, x: u64) -> bool {
        // Case I.
        if take(&mut self.t1, x) || take(&mut self.t2, x) {
            self.t2.push(x);
            return true;
        }
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        if self.b1.contains(&x) {
            // Case II.
            let delta = if b2 <= b1 { 1.0 } else { b2 / b1 };
            self.p = (self.p + delta).min(self.c as f64);
            self.replace(x);
            take(&mut self.b1, x);
            self.t2.push(x);
        } else if self.b2.contains(&x) {
            // Case III.
            let delta = if b1 <= b2 { 1.0 } else { b1 / b2 };
            self.p = (self.p - delta).max(0.0);
            self.replace(x);
            take(&mut self.b2, x);
            self.t2.push(x);
        } else {
            // Case IV.
            let l1 = self.t1.len() + self.b1.len();
            let l2 = self.t2.len() + self.b2.len();
            if l1 == self.c {
                if self.t1.len() < self.c {
                    self.b1.remove(0);
                    self.replace(x);
                } else {
                    self.t1.remove(0);
                }
            } else if self.c <= l1 + l2 {
                if l1 + l2 == 2 * self.c {
                    self.b2.remove(0);
                }
                self.replace(x);
            }
            self.t1.push(x);
        }
        false
    }

    fn replace(&mut self, x: u64) {
        let t1 = self.t1.len() as f64;
        if !self.t1.is_empty() && ((self.b2.contains(&x) && t1 == self.p) || self.p < t1) {
            self.b1.push(self.t1.remove(0));
        } else {
            self.b2.push(self.t2.remove(0));
        }
    }

    fn resident(&self) -> Vec<u64> {
        let mut resident = [&self.t1[..], &self.t2[..]].concat();
        resident.sort_unstable();
        resident
    }
}

/// A level of `c` entries whose keys are their contents.
fn request(level: &mut Placement<u64>, c: usize, x: u64) -> bool {
    if level.contains(x) {
        level.hold(x);
        level.release(x);
        return true;
    }
    if level.len() == c {
        assert!(level.admits(x, Retention::default(), 0));
        let victim = level.victim(0).expect("all are idle");
        level.remove(victim);
    }
    level.add(x, x, Retention::default());
    false
}

#[test]
fn requests_hit_and_replace_as_in_the_paper() {
    let mut ghost_hits = [0, 0];
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let c = 1 + rng.below(24);
        let contents = 2 + rng.below(4 * c);
        let mut paper = PaperArc { c, ..PaperArc::default() };
        let mut level = Placement::new(PlacementRule::Arc, c);
        for number in 0..1500 {
            // Hot contents, a uniform part, and now and then a scan.
            let x = match (rng.below(3), number / 100 % 4) {
                (0, _) => rng.below(1 + contents / 4) as u64,
                (_, 3) => 1_000_000 + number as u64,
                _ => rng.below(contents) as u64,
            };
            ghost_hits[0] += usize::from(paper.b1.contains(&x));
            ghost_hits[1] += usize::from(paper.b2.contains(&x));
            let is_hit = paper.request(x);
            assert_eq!(request(&mut level, c, x), is_hit, "request {number} of {x}");
            level.check();
            assert_eq!(level.len(), paper.t1.len() + paper.t2.len());
            let is_there = paper.resident().into_iter().all(|content| level.contains(content));
            assert!(is_there, "after request {number} of {x}");
        }
    }
    assert!(ghost_hits.iter().all(|hits| 10_000 < *hits), "{ghost_hits:?} hits of ghosts");
}
