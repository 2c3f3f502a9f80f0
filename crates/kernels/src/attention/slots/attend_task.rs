//! How a task is computed: by the reference, or tile by tile with vectors.

use super::reference::{self, SlotRows};
use super::slot_task::SlotTask;
use super::tile::Tile;
use super::work::{Work, WorkSizes};
use crate::cpu::lanes::{Kernel, Lanes};
use crate::pages::slot_pages::Side;

impl Kernel for SlotTask<'_> {
    fn reference(mut self) {
        let mut sums = self.weights.take();
        let scratch = std::mem::take(&mut self.scratch);
        let (weights, row) = scratch.split_at_mut(self.filled);
        for query in 0..self.queries {
            let rerotated = |slot| self.rerotated.filter(|_| slot < self.protected);
            let slots = SlotRows {
                sees: &|slot| self.sees(query, slot),
                query: &|slot| rerotated(slot).unwrap_or(self.q).get(query),
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
