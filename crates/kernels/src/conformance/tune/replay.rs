//! Attention over replayed slots and its gradients, with and without vectors; and rows that go
//! into slots and come back. Numbers are such as products take, so that only what is computed on
//! the way is rounded.

use terrace_device::{View, ViewMut};

use super::Both;
use crate::attention::replay::{
    ChunkAt, KeptRows, ReplayGradients, ReplayQueries, ReplaySlots, RowGradients,
};
use crate::conformance::{Report, SplitMix};

pub(super) fn check(both: &Both<'_>, random: &mut SplitMix, report: &mut Report) {
    for dim in [1, 8, 16, 17, 33] {
        for tokens in [1, 3, 17, 70] {
            for window in [None, Some(5)] {
                if !report.skips("replay") {
                    Case::new(both, random, dim, tokens).attend(both, report, window);
                }
            }
        }
    }
    // More of everything than a task of heads so wide has at a time.
    for window in [None, Some(30)] {
        if !report.skips("replay") {
            Case::new(both, random, 1000, 70).attend(both, report, window);
        }
    }
    for dim in [1, 16, 19] {
        for tokens in [1, 4, 23] {
            if !report.skips("place_rows") {
                Case::new(both, random, dim, tokens).place(both, random, report);
            }
        }
    }
}

struct Case {
    at: ChunkAt,
    slots: usize,
    filled: usize,
    keys: Vec<f32>,
    values: Vec<f32>,
    positions: Vec<i32>,
    query: Vec<f32>,
}

impl Case {
    /// Slots in any order that hold the chunk's own tokens and older ones.
    fn new(both: &Both<'_>, random: &mut SplitMix, dim: usize, tokens: usize) -> Self {
        let kv_heads = 1 + random.below(3);
        let at = ChunkAt {
            seqs: 1 + random.below(3),
            row_tokens: tokens + 4,
            first: random.below(4),
            tokens,
            position: 40 + random.below(60),
            heads: kv_heads * (1 + random.below(3)),
            kv_heads,
            dim,
        };
        let filled = tokens + random.below(90);
        let slots = filled + random.below(5);
        let rows = at.seqs * kv_heads;
        let mut positions = Vec::new();
        for _ in 0..rows {
            // The newest, and others of before; all in any order.
            let older = random.shuffled(at.position).into_iter().chain(at.position + tokens..);
            let own = at.position..at.position + tokens;
            let held: Vec<usize> = own.chain(older).take(filled).collect();
            let order = random.shuffled(filled);
            positions.extend(order.into_iter().map(|i| held[i] as i32));
            positions.extend(vec![-1; slots - filled]);
        }
        let mut numbers = |count| both.rounded(&random.numbers(count));
        let [keys, values] = [(); 2].map(|()| numbers(rows * slots * dim));
        let query = numbers(at.seqs * at.row_tokens * at.heads * dim);
        Case { at, slots, filled, keys, values, positions, query }
    }

    fn queries(&self, window: Option<usize>) -> ReplayQueries<'_> {
        let (at, rows) = (self.at, self.at.seqs * self.at.kv_heads);
        let shape = [rows, self.slots, at.dim];
        let slots = ReplaySlots {
            keys: View::of(&self.keys, shape),
            values: View::of(&self.values, shape),
            positions: View::of(&self.positions, [rows, self.slots]),
            filled: self.filled,
        };
        let query = View::of(&self.query, [at.seqs * at.row_tokens, at.heads * at.dim]);
        ReplayQueries { at, query, slots, scale: 0.6, window }
    }

    fn attend(&self, both: &Both<'_>, report: &mut Report, window: Option<usize>) {
        let (at, queries) = (self.at, self.queries(window));
        let (all, kv_rows) = (at.seqs * at.row_tokens, at.seqs * at.kv_heads);
        let [shape, slots] = [[all, at.heads * at.dim], [kv_rows, self.slots * at.dim]];
        let slot_shape = [kv_rows, self.slots, at.dim];
        let names = ["out", "log_sums", "weights", "d_query", "d_keys", "d_values"];
        let case = format!("{at:?}, {} slots, window {window:?}", self.filled);
        both.compare(report, "replay", &case, &names, both.tolerance(), |ops| {
            let zeros = |[rows, columns]: [usize; 2]| vec![0.0f32; rows * columns];
            let (mut out, mut log_sums) = (zeros(shape), zeros([all, at.heads]));
            let mut weights = vec![f32::NAN; kv_rows * self.filled];
            let d_out: Vec<f32> = (0..all * shape[1]).map(|i| (i as f32).sin()).collect();
            let d_out = both.rounded(&d_out);
            let [mut d_query, mut d_keys, mut d_values] =
                [zeros(shape), zeros(slots), zeros(slots)];
            let sums_view = ViewMut::of(&mut log_sums, [all, at.heads]);
            ops.attend_slots(queries, ViewMut::of(&mut out, shape), sums_view);
            let log_view = View::of(&log_sums, [all, at.heads]);
            let weights_view = ViewMut::of(&mut weights, [kv_rows, self.filled]);
            ops.weight_sums(queries, log_view, weights_view);
            ops.attend_slots_gradients(ReplayGradients {
                queries,
                out: View::of(&out, shape),
                log_sums: log_view,
                d_out: View::of(&d_out, shape),
                d_query: ViewMut::of(&mut d_query, shape),
                d_keys: ViewMut::of(&mut d_keys, slot_shape),
                d_values: ViewMut::of(&mut d_values, slot_shape),
            });
            vec![out, log_sums, weights, d_query, d_keys, d_values]
        });
    }

    /// What is placed and taken back leaves the slots as they were, and the gradients in its slots
    /// are its rows'.
    fn place(&self, both: &Both<'_>, random: &mut SplitMix, report: &mut Report) {
        let (at, tokens, dim) = (self.at, self.at.tokens, self.at.dim);
        let (rows, all) = (at.seqs * at.kv_heads, at.seqs * at.row_tokens);
        let (slot_shape, row_shape) = ([rows, self.slots, dim], [all, at.kv_heads * dim]);
        let chosen = (0..rows).flat_map(|_| random.shuffled(self.filled).into_iter().take(tokens));
        let chosen: Vec<i32> = chosen.map(|slot| slot as i32).collect();
        let live = random.numbers(all * row_shape[1]);
        let (mut keys, mut values) = (self.keys.clone(), self.values.clone());
        let mut positions = self.positions.clone();
        let mut kept = Kept {
            shape: [rows, tokens, dim],
            keys: vec![0.0; rows * tokens * dim],
            values: vec![0.0; rows * tokens * dim],
            positions: vec![0; rows * tokens],
        };
        let slots = View::of(&chosen, [rows, tokens]);
        let live_view = View::of(&live, row_shape);
        {
            let of_slots = [&mut keys, &mut values].map(|rows| ViewMut::of(rows, slot_shape));
            let positions = ViewMut::of(&mut positions, [rows, self.slots]);
            both.ops.place_rows(&at, slots, [live_view; 2], of_slots, positions, kept.rows());
        }
        let slot_gradients = keys.clone();
        let [mut slot_keys, mut slot_values] = [(); 2].map(|()| slot_gradients.clone());
        let [mut d_keys, mut d_values] = [(); 2].map(|()| live.clone());
        {
            let gradients = RowGradients {
                slot_keys: ViewMut::of(&mut slot_keys, slot_shape),
                slot_values: ViewMut::of(&mut slot_values, slot_shape),
                keys: ViewMut::of(&mut d_keys, row_shape),
                values: ViewMut::of(&mut d_values, row_shape),
            };
            let of_slots = [&mut keys, &mut values].map(|rows| ViewMut::of(rows, slot_shape));
            let positions = ViewMut::of(&mut positions, [rows, self.slots]);
            both.ops.take_back_rows(&at, slots, kept.rows(), of_slots, positions, gradients);
        }
        let case = format!("{at:?}");
        report.compare_exactly("place_rows", case.clone(), &keys, &self.keys);
        report.compare_exactly("place_rows", case.clone(), &values, &self.values);
        report.compare_exactly("place_rows", case.clone(), &positions, &self.positions);
        // The slots held the live rows when their gradients were set to them.
        report.compare_exactly("place_rows", case.clone(), &d_keys, &live);
        let taken = slot_keys.iter().filter(|x| **x == 0.0).count() >= rows * tokens * dim;
        report.compare_exactly("place_rows", case, &[taken], &[true]);
    }
}

/// What lay in the chunk's slots before.
struct Kept {
    shape: [usize; 3],
    keys: Vec<f32>,
    values: Vec<f32>,
    positions: Vec<i32>,
}

impl Kept {
    fn rows(&mut self) -> KeptRows<'_> {
        let [rows, tokens, _] = self.shape;
        KeptRows {
            keys: ViewMut::of(&mut self.keys, self.shape),
            values: ViewMut::of(&mut self.values, self.shape),
            positions: ViewMut::of(&mut self.positions, [rows, tokens]),
        }
    }
}
