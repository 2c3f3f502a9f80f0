//! Attention over replayed slots and its gradients, on any device; and rows that go into slots and
//! come back. Numbers are such as products take, so that only what is computed on the way is
//! rounded.

use terrace_device::{DType, Device, ViewMut};

use super::Both;
use crate::attention::replay::{
    ChunkAt, KeptRows, ReplayGradients, ReplayQueries, ReplaySlots, RowGradients,
};
use crate::conformance::placed::Placed;
use crate::conformance::{Report, SplitMix};
use crate::tune_ops::TuneOps;

pub(super) fn check(both: &Both<'_>, random: &mut SplitMix, report: &mut Report) {
    let is_on_gpu = matches!(both.device, Device::Cuda(_));
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
            let dim = if is_on_gpu { 255 } else { 1000 };
            Case::new(both, random, dim, 70).attend(both, report, window);
        }
    }
    if is_on_gpu {
        tiles(both, random, report);
    }
    for dim in [1, 16, 19, 64] {
        for tokens in [1, 4, 23] {
            if !report.skips("place_rows") {
                Case::new(both, random, dim, tokens).place(both, random, report);
            }
            if !report.skips("gather_slots") {
                Case::new(both, random, dim, tokens).gather(both, random, report);
            }
        }
    }
}

/// Some tiles of queries and of slots, for heads that tensor cores take: with tiles that all
/// queries see, that some see, and that none does.
fn tiles(both: &Both<'_>, random: &mut SplitMix, report: &mut Report) {
    // Tokens, filled slots, heads that share a kv head, kv heads, sequences.
    let sizes = [
        [64, 131, 1, 1, 1],
        [129, 389, 3, 2, 1],
        [65, 700, 4, 1, 2],
        [301, 513, 2, 1, 1],
        [1, 300, 2, 2, 1],
        [128, 128, 1, 1, 3],
    ];
    for dim in [64, 128] {
        for [tokens, filled, group, kv_heads, seqs] in sizes {
            for order in [Order::Any, Order::ByPosition] {
                for window in [None, Some(90)] {
                    if report.skips("replay") {
                        continue;
                    }
                    let at = ChunkAt {
                        seqs,
                        row_tokens: tokens + 4,
                        first: random.below(4),
                        tokens,
                        position: filled + random.below(300),
                        heads: kv_heads * group,
                        kv_heads,
                        dim,
                    };
                    let case = Case::of(both, random, at, filled, order);
                    case.attend(both, report, window);
                }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Any,
    ByPosition,
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
        Self::of(both, random, at, filled, Order::Any)
    }

    /// Slots that hold the chunk's own tokens and older ones.
    fn of(
        both: &Both<'_>,
        random: &mut SplitMix,
        at: ChunkAt,
        filled: usize,
        order: Order,
    ) -> Self {
        let (tokens, dim) = (at.tokens, at.dim);
        let slots = filled + random.below(5);
        let rows = at.seqs * at.kv_heads;
        let mut positions = Vec::new();
        for _ in 0..rows {
            // The newest, and others of before.
            let older = random.shuffled(at.position).into_iter().chain(at.position + tokens..);
            let own = at.position..at.position + tokens;
            let mut held: Vec<i32> = own.chain(older).take(filled).map(|at| at as i32).collect();
            match order {
                Order::ByPosition => held.sort_unstable(),
                Order::Any => {
                    let order = random.shuffled(filled);
                    held = order.into_iter().map(|i| held[i]).collect();
                }
            }
            positions.extend(held);
            positions.extend(vec![-1; slots - filled]);
        }
        let mut numbers = |count| both.rounded(&random.numbers(count));
        let [keys, values] = [(); 2].map(|()| numbers(rows * slots * dim));
        let query = numbers(at.seqs * at.row_tokens * at.heads * dim);
        Case { at, slots, filled, keys, values, positions, query }
    }

    fn slot_shape(&self) -> [usize; 3] {
        [self.at.seqs * self.at.kv_heads, self.slots, self.at.dim]
    }

    /// Rows of tokens with so many heads.
    fn row_shape(&self, heads: usize) -> [usize; 2] {
        [self.at.seqs * self.at.row_tokens, heads * self.at.dim]
    }

    fn attend(&self, both: &Both<'_>, report: &mut Report, window: Option<usize>) {
        let names = ["out", "log_sums", "weights", "d_query", "d_keys", "d_values"];
        let case = format!("{:?}, {} slots, window {window:?}", self.at, self.filled);
        both.compare(report, "replay", &case, &names, both.tolerance(), |ops| {
            self.results(both, ops, window)
        });
    }

    /// Slots that are not filled are not numbers.
    fn only_filled(&self, rows: &[f32]) -> Vec<f32> {
        let [_, slots, dim] = self.slot_shape();
        let numbers = rows.iter().enumerate();
        let is_filled = |i: usize| i / dim % slots < self.filled;
        numbers.map(|(i, x)| if is_filled(i) { *x } else { f32::NAN }).collect()
    }

    fn results(&self, both: &Both<'_>, ops: &TuneOps<'_>, window: Option<usize>) -> Vec<Vec<f32>> {
        let at = self.at;
        let (slot_shape, shape) = (self.slot_shape(), self.row_shape(at.heads));
        let ([rows, slots, _], [all, columns]) = (slot_shape, shape);
        let (device, act) = (ops.device(), ops.activation());
        let exact = |count: usize, number: f32| vec![number; count];
        let [keys, values] = [&self.keys, &self.values]
            .map(|rows| Placed::numbers(&device, act, &self.only_filled(rows), slot_shape));
        let positions = Placed::of(&device, &self.positions, [rows, slots]);
        let query = Placed::numbers(&device, act, &self.query, shape);
        let queries = ReplayQueries {
            at,
            query: query.view(),
            slots: ReplaySlots {
                keys: keys.view(),
                values: values.view(),
                positions: positions.view(),
                filled: self.filled,
            },
            scale: 0.6,
            window,
        };
        let mut out = Placed::numbers(&device, act, &exact(all * columns, 0.0), shape);
        let mut log_sums = Placed::of(&device, &exact(all * at.heads, 0.0), [all, at.heads]);
        ops.attend_slots(queries, out.view_mut(), log_sums.view_mut());
        let mut weights = Placed::poisoned(&device, DType::F32, [rows, self.filled]);
        ops.weight_sums(queries, log_sums.view(), weights.view_mut());
        let d_out: Vec<f32> = (0..all * columns).map(|i| (i as f32).sin()).collect();
        let d_out = Placed::of(&device, &both.rounded(&d_out), shape);
        let mut d_query = Placed::of(&device, &exact(all * columns, 0.0), shape);
        let before = exact(self.keys.len(), 0.25);
        let [mut d_keys, mut d_values] = [(); 2].map(|()| Placed::of(&device, &before, slot_shape));
        ops.attend_slots_gradients(ReplayGradients {
            queries,
            out: out.view(),
            log_sums: log_sums.view(),
            d_out: d_out.view(),
            d_query: d_query.view_mut(),
            d_keys: d_keys.view_mut(),
            d_values: d_values.view_mut(),
        })
        .expect("memory for small rows");
        [out, log_sums, weights, d_query, d_keys, d_values].map(|x| x.to_numbers()).to_vec()
    }

    /// What is placed and taken back leaves the slots as they were, and the gradients in its slots
    /// are its rows'.
    fn place(&self, both: &Both<'_>, random: &mut SplitMix, report: &mut Report) {
        let (at, tokens, dim) = (self.at, self.at.tokens, self.at.dim);
        let (slot_shape, row_shape) = (self.slot_shape(), self.row_shape(at.kv_heads));
        let rows = slot_shape[0];
        let (device, act) = (&both.device, both.act);
        let chosen = (0..rows).flat_map(|_| random.shuffled(self.filled).into_iter().take(tokens));
        let chosen: Vec<i32> = chosen.map(|slot| slot as i32).collect();
        let chosen = Placed::of(device, &chosen, [rows, tokens]);
        let live = both.rounded(&random.numbers(row_shape.iter().product()));
        let live_rows = Placed::numbers(device, act, &live, row_shape);
        let [mut keys, mut values] =
            [&self.keys, &self.values].map(|rows| Placed::numbers(device, act, rows, slot_shape));
        let mut positions = Placed::of(device, &self.positions, [rows, self.slots]);
        let mut kept = Kept::new(both, [rows, tokens, dim]);
        both.ops.place_rows(
            &at,
            chosen.view(),
            [live_rows.view(); 2],
            [keys.view_mut(), values.view_mut()],
            positions.view_mut(),
            kept.rows(),
        );
        let slot_gradients = keys.to_numbers();
        let [mut slot_keys, mut slot_values] =
            [(); 2].map(|()| Placed::of(device, &slot_gradients, slot_shape));
        let [mut d_keys, mut d_values] = [(); 2].map(|()| Placed::of(device, &live, row_shape));
        both.ops.take_back_rows(
            &at,
            chosen.view(),
            kept.rows(),
            [keys.view_mut(), values.view_mut()],
            positions.view_mut(),
            RowGradients {
                slot_keys: slot_keys.view_mut(),
                slot_values: slot_values.view_mut(),
                keys: d_keys.view_mut(),
                values: d_values.view_mut(),
            },
        );
        let case = format!("{at:?}");
        report.compare_exactly("place_rows", case.clone(), &keys.to_numbers(), &self.keys);
        report.compare_exactly("place_rows", case.clone(), &values.to_numbers(), &self.values);
        report.compare_exactly("place_rows", case.clone(), &positions.to_ids(), &self.positions);
        // The slots held the live rows when their gradients were set to them.
        for d_rows in [d_keys, d_values] {
            report.compare_exactly("place_rows", case.clone(), &d_rows.to_numbers(), &live);
        }
        for in_slots in [slot_keys, slot_values] {
            let zeros = in_slots.to_numbers().iter().filter(|x| **x == 0.0).count();
            let taken = zeros >= rows * tokens * dim;
            report.compare_exactly("place_rows", case.clone(), &[taken], &[true]);
        }
    }

    /// Slots are filled with the rows of their tokens, and with zeros where they hold none.
    fn gather(&self, both: &Both<'_>, random: &mut SplitMix, report: &mut Report) {
        let (at, slot_shape) = (self.at, self.slot_shape());
        let row_shape = self.row_shape(at.kv_heads);
        let [rows, slots, _] = slot_shape;
        let numbers = both.rounded(&random.numbers(row_shape.iter().product()));
        let positions: Vec<i32> =
            (0..rows * slots).map(|_| random.below(at.row_tokens + 1) as i32 - 1).collect();
        let case = format!("{at:?}, {slots} slots");
        both.compare(report, "gather_slots", &case, &["out"], 0.0, |ops| {
            let (device, act) = (ops.device(), ops.activation());
            let numbers = Placed::numbers(&device, act, &numbers, row_shape);
            let positions = Placed::of(&device, &positions, [rows, slots]);
            let mut out = Placed::poisoned(&device, act, slot_shape);
            ops.gather_slots(numbers.view(), positions.view(), out.view_mut());
            vec![out.to_numbers()]
        });
    }
}

/// What lay in the chunk's slots before.
struct Kept {
    keys: Placed,
    values: Placed,
    positions: Placed,
}

impl Kept {
    fn new(both: &Both<'_>, shape: [usize; 3]) -> Self {
        let [rows, tokens, _] = shape;
        let side = || Placed::poisoned(&both.device, both.act, shape);
        let positions = Placed::poisoned(&both.device, DType::I32, [rows, tokens]);
        Kept { keys: side(), values: side(), positions }
    }

    fn rows(&mut self) -> KeptRows<'_> {
        let [keys, values, positions]: [ViewMut<'_>; 3] =
            [&mut self.keys, &mut self.values, &mut self.positions].map(|side| side.view_mut());
        KeptRows { keys, values, positions }
    }
}
