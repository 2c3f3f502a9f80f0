//! A head's queries over its slots.
//!
//! A task is one head of one sequence. Its live rows are taken some at a time: all their scores,
//! their softmax, then the weighted values; what a query sums, it sums in the order of slots.

use std::ops::Range;

use terrace_device::{SharedRows, View, ViewMut};

use crate::cpu_ops::{CpuOps, SCRATCH_FLOATS};
use crate::slot_kv::{SlotKv, SlotRule};
use crate::slot_pages::{Note, Side, SlotPages};

/// Queries are f32 `[tokens, heads, key_dim]`; see [`AttendSlotsArgs`](super::AttendSlotsArgs).
pub(super) struct Attention<'a> {
    pub query: View<'a>,
    pub turned: Option<View<'a>>,
    pub layer: usize,
    pub scale: f32,
    pub window: Option<usize>,
}

pub(super) fn attend(
    ops: &CpuOps,
    attention: Attention<'_>,
    kv: &mut SlotKv<'_>,
    mut out: ViewMut<'_>,
) {
    let layout = kv.layout;
    let [tokens, heads, key_dim] = attention.query.dims();
    assert_eq!(key_dim, layout.key_dim, "queries");
    assert_eq!(out.dims(), [tokens, heads, layout.value_dim], "out of attention");
    assert!(heads.is_multiple_of(layout.kv_heads), "{heads} query heads");
    let out = SharedRows::<f32>::new(&mut out);
    // SAFETY: each task has a head of a sequence to itself.
    let pages = unsafe { SharedRows::<u8>::of_shared(&kv.pages) };
    let kv_heads = layout.kv_heads;
    ops.pool.run(kv.seqs() * kv_heads, &|worker, task| {
        let (seq, kv_head) = (task / kv_heads, task % kv_heads);
        let live = kv.live_rows(seq);
        let table = kv.block_tables.row::<i32>(seq);
        // SAFETY: this task's head and sequence.
        let slots = unsafe { SlotPages::new(&pages, table, &layout, attention.layer, kv_head) };
        let rule = kv.rule(seq);
        let head = Head {
            attention: &attention,
            filled: rule.filled(live.len()),
            rule,
            live,
            group: heads / kv_heads,
            kv_head,
            slots,
            dims: [layout.key_dim, layout.value_dim],
            out: &out,
        };
        ops.with_scratch(worker, |scratch| head.attend(scratch));
    });
}

struct Head<'a> {
    attention: &'a Attention<'a>,
    rule: SlotRule,
    filled: usize,
    live: Range<usize>,
    group: usize,
    kv_head: usize,
    slots: SlotPages<'a>,
    dims: [usize; 2],
    out: &'a SharedRows<'a, f32>,
}

impl Head<'_> {
    fn attend(self, scratch: &mut [f32]) {
        let filled = self.filled;
        let (weights, scratch) = scratch.split_at_mut(filled);
        let (row, scratch) = scratch.split_at_mut(self.dims[0].max(self.dims[1]));
        weights.fill(0.0);
        let queries = scratch.len() / filled;
        let all = self.live.len() * self.group;
        assert!(0 < queries, "{filled} slots in a memory of {SCRATCH_FLOATS} numbers");
        for start in (0..all).step_by(queries) {
            self.attend_tile(start..all.min(start + queries), row, scratch, weights);
        }
        if self.rule.adds_to_scores() {
            self.add_to_scores(weights);
        }
    }

    /// Queries are numbered row by row, head by head. scores: `[queries, filled]`
    fn attend_tile(
        &self,
        queries: Range<usize>,
        row: &mut [f32],
        scores: &mut [f32],
        weights: &mut [f32],
    ) {
        let filled = self.filled;
        for slot in 0..filled {
            let key = &mut row[..self.dims[0]];
            self.slots.load(Side::Keys, slot, key);
            let position = self.slots.position(slot);
            for (i, query) in queries.clone().enumerate() {
                scores[i * filled + slot] = self.score(query, slot, position, key);
            }
        }
        for (i, query) in queries.clone().enumerate() {
            let scores = &mut scores[i * filled..(i + 1) * filled];
            softmax(scores);
            for (weight, score) in weights.iter_mut().zip(scores) {
                *weight += *score / self.group as f32;
            }
            self.out(query).fill(0.0);
        }
        for slot in 0..filled {
            let value = &mut row[..self.dims[1]];
            self.slots.load(Side::Values, slot, value);
            for (i, query) in queries.clone().enumerate() {
                let weight = scores[i * filled + slot];
                for (out, value) in self.out(query).iter_mut().zip(&*value) {
                    *out += weight * value;
                }
            }
        }
    }

    fn score(&self, query: usize, slot: usize, position: i32, key: &[f32]) -> f32 {
        let attention = self.attention;
        let at = self.rule.past + (query / self.group) as i32;
        let is_near = attention.window.is_none_or(|window| at - position < window as i32);
        if position < 0 || at < position || !is_near {
            return f32::NEG_INFINITY;
        }
        let queries = match attention.turned {
            Some(turned) if (slot as i32) < self.rule.protected => turned,
            _ => attention.query,
        };
        let (row, head) = self.row_and_head(query);
        let query = &queries.row::<f32>(row)[head * key.len()..(head + 1) * key.len()];
        let products = query.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k));
        products.sum::<f64>() as f32 * attention.scale
    }

    fn row_and_head(&self, query: usize) -> (usize, usize) {
        (self.live.start + query / self.group, self.kv_head * self.group + query % self.group)
    }

    #[allow(clippy::mut_from_ref)]
    fn out(&self, query: usize) -> &mut [f32] {
        let (row, head) = self.row_and_head(query);
        let dim = self.dims[1];
        // SAFETY: this head of this row is this task's, and no two slices of it live at once.
        unsafe { self.out.part_mut(row, head * dim..(head + 1) * dim) }
    }

    /// weights: `[filled]`
    fn add_to_scores(&self, weights: &[f32]) {
        let norm = |head: &Self, slot| head.slots.note(Note::ValueNorm, slot);
        let mut scale = None;
        if self.rule.by_value_norm {
            let shares = weights.iter().enumerate();
            let total: f64 = shares.map(|(slot, w)| f64::from(w * norm(self, slot))).sum();
            // Norms that are all zero tell nothing, and the weights count as they are.
            scale = (total > 0.0).then(|| (self.live.len() as f64 / total) as f32);
        }
        for (slot, weight) in weights.iter().enumerate() {
            let counted = scale.map_or(*weight, |scale| weight * norm(self, slot) * scale);
            let score = self.slots.note(Note::Score, slot);
            self.slots.set_note(Note::Score, slot, score + counted);
        }
    }
}

fn softmax(scores: &mut [f32]) {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    scores.iter_mut().for_each(|score| *score = (*score - most).exp());
    let total: f32 = scores.iter().map(|score| f64::from(*score)).sum::<f64>() as f32;
    scores.iter_mut().for_each(|score| *score /= total);
}
