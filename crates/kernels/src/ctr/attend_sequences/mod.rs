//! Attention of one short sequence of each sample to another, head by head:
//! `softmax(q . k / sqrt(dim)) v`.
//!
//! q: act `[samples, rows * heads * dim]` · k, v: act `[samples, columns * heads * dim]` ·
//! mask: act `[samples, rows * columns]`, 0 where a key shall not be seen: it takes 10,000 off a
//! score, and then a millionth is added to the sum of exponentials, as HugeCTR does. What it takes
//! off all scores of a row changes nothing, and is not taken, for it would leave them few digits ·
//! out: as q
//!
//! Roofline: `columns` flops per byte of q, k and v; sequences are short and in cache, bound by
//! multiplication.

pub(crate) mod cuda;
pub(crate) mod reference;

use terrace_device::{SharedRows, View, ViewMut};

use super::softmax_rows::Softmax;
use crate::cpu::cpu_ctx::{CpuCtx, SCRATCH_FLOATS};
use crate::cpu::lanes::{Kernel, Lanes};
use crate::tiles::tile;

/// Most keys that a query can see: its scores lie in a GPU's shared memory.
pub const MAX_SEQUENCE_KEYS: usize = 48 << 10;
const _: () = assert!(MAX_SEQUENCE_KEYS <= SCRATCH_FLOATS);

const HIDDEN: f32 = 10_000.0;
const ADDED: f32 = 1e-6;

#[derive(Clone, Copy)]
pub struct AttendSequencesArgs<'a> {
    pub q: View<'a>,
    pub k: View<'a>,
    pub v: View<'a>,
    pub mask: Option<View<'a>>,
    pub heads: usize,
    /// Numbers of a head.
    pub dim: usize,
}

pub(crate) fn attend_sequences(ctx: &CpuCtx, args: &AttendSequencesArgs<'_>, mut out: ViewMut<'_>) {
    let AttendSequencesArgs { q, k, v, mask, heads, dim } = *args;
    let ([samples, q_width], [_, k_width]) = (q.dims(), k.dims());
    let hidden = heads * dim;
    let (rows, columns) = (q_width / hidden, k_width / hidden);
    assert_eq!(q.dims(), [samples, rows * hidden], "queries of attend_sequences");
    for keys in [k, v] {
        assert_eq!(keys.dims(), [samples, columns * hidden], "keys of attend_sequences");
    }
    assert_eq!(out.dims(), q.dims::<2>(), "out of attend_sequences");
    assert!(mask.is_none_or(|mask| mask.dims() == [samples, rows * columns]), "mask of attention");
    assert!(columns <= MAX_SEQUENCE_KEYS, "{columns} keys");
    let out = SharedRows::<f32>::new(&mut out);
    ctx.run_with_scratch(samples * heads, &|scratch, task| {
        let (sample, head) = (task / heads, task % heads);
        let [q, k, v]: [&[f32]; 3] = [q, k, v].map(|rows| rows.row(sample));
        for row in 0..rows {
            let start = row * hidden + head * dim;
            // SAFETY: each head of a sample is one task's.
            let out = unsafe { out.part_mut(sample, start..start + dim) };
            let mask: Option<&[f32]> = mask.map(|mask| mask.row(sample));
            let mask = mask.map(|mask| &mask[row * columns..(row + 1) * columns]);
            let scores = &mut scratch[..columns];
            let head = HeadRows { hidden, first: head * dim, dim };
            ctx.simd.run(Scores { q: &q[start..start + dim], k, head, mask, scores });
            let added = if mask.is_some() { ADDED } else { 0.0 };
            ctx.simd.run(Softmax { x: &mut scratch[..columns], added });
            ctx.simd.run(Values { weights: &scratch[..columns], v, head, out });
        }
    });
}

/// Where a head's numbers lie in the rows of a sample.
#[derive(Clone, Copy)]
pub(crate) struct HeadRows {
    pub(crate) hidden: usize,
    pub(crate) first: usize,
    pub(crate) dim: usize,
}

impl HeadRows {
    #[inline(always)]
    pub(crate) fn of(self, rows: &[f32], index: usize) -> &[f32] {
        let start = index * self.hidden + self.first;
        &rows[start..start + self.dim]
    }
}

struct Scores<'a> {
    q: &'a [f32],
    k: &'a [f32],
    head: HeadRows,
    mask: Option<&'a [f32]>,
    scores: &'a mut [f32],
}

impl Kernel for Scores<'_> {
    fn reference(self) {
        reference::scores(self.q, self.k, self.head, self.mask, self.scores);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let Scores { q, k, head, mask, scores } = self;
        let (last, scale) = (scores.len() - 1, 1.0 / (head.dim as f32).sqrt());
        for (i, scores) in scores.chunks_mut(4).enumerate() {
            let mut keys = [&[][..]; 4];
            for (n, key) in keys.iter_mut().enumerate() {
                *key = head.of(k, (4 * i + n).min(last));
            }
            let [products] = tile::<L, _, 1, 4>(lanes, [q], keys, head.dim);
            scores.iter_mut().zip(products).for_each(|(score, product)| *score = product * scale);
        }
        let Some(mask) = mask else { return };
        let most = mask.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for (score, mask) in scores.iter_mut().zip(mask) {
            *score -= (most - mask) * HIDDEN;
        }
    }
}

struct Values<'a> {
    weights: &'a [f32],
    v: &'a [f32],
    head: HeadRows,
    out: &'a mut [f32],
}

impl Kernel for Values<'_> {
    fn reference(self) {
        reference::values(self.weights, self.v, self.head, self.out);
    }

    #[inline(always)]
    fn simd<L: Lanes>(self, lanes: L) {
        let Values { weights, v, head, out } = self;
        for (i, out) in out.chunks_mut(L::COUNT).enumerate() {
            let columns = i * L::COUNT..i * L::COUNT + out.len();
            let mut sum = lanes.splat(0.0);
            for (index, weight) in weights.iter().enumerate() {
                let value = lanes.read(&head.of(v, index)[columns.clone()]);
                sum = lanes.mul_add(value, lanes.splat(*weight), sum);
            }
            lanes.write(sum, out);
        }
    }
}
