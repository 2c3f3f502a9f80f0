//! What a task does: some live rows of a sequence in one head.

use super::key_rotation::KeyRotation;
use super::reference::{self, SlotRows};
use super::tile::Tile;
use super::work::{Work, WorkSizes};
use crate::attention::blocks::{OutRows, QueryRows};
use crate::cpu::lanes::{Kernel, Lanes};
use crate::pages::slot_pages::{Side, SlotPages};

/// Live rows of one sequence that follow each other, and the query heads of one kv head.
pub(super) struct Part<'a> {
    pub(super) q: QueryRows<'a>,
    /// As protected keys meet them.
    pub(super) turned: Option<QueryRows<'a>>,
    /// Each query's result is this task's alone.
    pub(super) out: OutRows<'a>,
    pub(super) queries: usize,
    /// Query heads of the kv head.
    pub(super) group: usize,
    /// Of the first row.
    pub(super) position: i32,
    pub(super) pages: &'a SlotPages<'a>,
    /// Slots that hold a token.
    pub(super) filled: usize,
    /// Slots whose keys are protected.
    pub(super) protected: usize,
    /// Of keys that turn when they are read.
    pub(super) rotation: Option<KeyRotation<'a>>,
    pub(super) scale: f32,
    pub(super) window: Option<usize>,
    /// `[filled]`, filled up to whole blocks: takes the weights in addition, if they are wanted.
    pub(super) weights: Option<&'a mut [f32]>,
    pub(super) scratch: &'a mut [f32],
}

impl Part<'_> {
    /// When a query is, counted from the first row on.
    pub(super) fn token(&self, query: usize) -> i32 {
        (query / self.group) as i32
    }

    fn load_key(&self, slot: usize, key: &mut [f32]) {
        self.pages.load(Side::Keys, slot, key);
        if let Some(rotation) = self.rotation {
            rotation.rotate_one(key, self.pages.position(slot));
        }
    }

    fn sees(&self, query: usize, slot: usize) -> bool {
        let position = self.pages.position(slot);
        let distance = self.position + self.token(query) - position;
        let is_near = self.window.is_none_or(|window| (distance as usize) < window);
        0 <= position && 0 <= distance && is_near
    }
}

impl Kernel for Part<'_> {
    fn reference(mut self) {
        let mut sums = self.weights.take();
        let scratch = std::mem::take(&mut self.scratch);
        let (weights, row) = scratch.split_at_mut(self.filled);
        for query in 0..self.queries {
            let turned = |slot| self.turned.filter(|_| slot < self.protected);
            let slots = SlotRows {
                sees: &|slot| self.sees(query, slot),
                query: &|slot| turned(slot).unwrap_or(self.q).get(query),
                key: &|slot, key| self.load_key(slot, key),
                value: &|slot, value| self.pages.load(Side::Values, slot, value),
            };
            // SAFETY: one query at a time.
            let out = unsafe { self.out.get(query) };
            reference::attend(&slots, self.scale, weights, row, out);
            if let Some(sums) = &mut sums {
                for (sum, weight) in sums.iter_mut().zip(&*weights) {
                    *sum += weight / self.group as f32;
                }
            }
        }
    }

    #[inline(always)]
    fn simd<L: Lanes>(mut self, lanes: L) {
        let memory = std::mem::take(&mut self.scratch);
        let mut weights = self.weights.take();
        let sizes = WorkSizes::new(self.pages, self.filled, weights.is_some());
        let most = sizes.queries_in(memory.len()).min(self.queries);
        for first in (0..self.queries).step_by(most) {
            let queries = most.min(self.queries - first);
            let mut work = Work::divide(memory, &sizes, queries);
            Tile::new(&self, first, queries).attend(lanes, &mut work);
            if let Some(weights) = weights.as_deref_mut() {
                work.add_weights(lanes, self.group, weights);
            }
        }
    }
}
