//! Ops that bring the numbers of a row together.

use super::case_rows::{CaseOut, CaseRows};
use crate::conformance::{Report, SIZES, SplitMix};
use crate::ctr::dice::{self, DiceRule};
use crate::ctr::interact::{self, interaction_width};
use crate::ctr::multi_cross::{self, MultiCrossArgs};
use crate::ctr::reduce_rows::{self, Reduction};
use crate::ctr::{fm_order2, weight_multiply};
use crate::ops::Ops;

pub(super) fn check(ops: &Ops, random: &mut SplitMix, report: &mut Report) {
    for dim in SIZES {
        for count in [1, 2, 3, 4, 5, 9, 26, 27] {
            interacted(ops, random, report, dim, count);
        }
    }
    for dim in SIZES.into_iter().chain([221, 429, 3000]) {
        crossed(ops, random, report, dim);
    }
    for dim in SIZES {
        for count in [1, 2, 13, 33] {
            multiplied(ops, random, report, dim, count);
        }
    }
    for dim in SIZES {
        for count in [1, 2, 39, 100] {
            paired(ops, random, report, dim, count);
        }
    }
    for dim in SIZES {
        for count in [1, 2, 10, 39, 416] {
            reduced(ops, random, report, dim, count);
        }
    }
    for dim in SIZES.into_iter().chain([200, 500]) {
        for rows in [1, 2, 7, 64, 333] {
            diced(ops, random, report, [rows, dim]);
        }
    }
}

fn interacted(ops: &Ops, random: &mut SplitMix, report: &mut Report, dim: usize, count: usize) {
    if report.skips("interact") {
        return;
    }
    let rows = 1 + random.below(20);
    let x = CaseRows::random(ops, random, [rows, dim]);
    let embeddings = CaseRows::random(ops, random, [rows, count * dim]);
    let width = interaction_width(dim, count);
    let mut out = CaseOut::new(ops, random, [rows, width]);
    ops.interact(x.view(), embeddings.view(), out.view_mut());
    let mut want = vec![f32::NAN; rows * width];
    let vectors = x.rows().zip(embeddings.rows());
    for ((x, embeddings), want) in vectors.zip(want.chunks_exact_mut(width)) {
        interact::reference::interact(x, embeddings, want);
    }
    out.compare(report, "interact", &format!("{count} vectors of {dim}"), &want);
}

fn crossed(ops: &Ops, random: &mut SplitMix, report: &mut Report, dim: usize) {
    if report.skips("multi_cross") {
        return;
    }
    let (rows, layers) = (1 + random.below(20), 1 + random.below(6));
    let x = CaseRows::random(ops, random, [rows, dim]);
    // Products stay near 1, as those of a trained network.
    let scale = 1.0 / dim as f32;
    let weights: Vec<f32> =
        random.numbers(layers * dim).into_iter().map(|weight| weight * scale).collect();
    let biases = random.numbers(layers * dim);
    let place = |values: &[f32]| ops.place_vector(values).expect("a small vector");
    let args = MultiCrossArgs { x: x.view(), weights: &place(&weights), biases: &place(&biases) };
    let mut out = CaseOut::new(ops, random, [rows, dim]);
    ops.multi_cross(&args, out.view_mut());
    let mut want = vec![f32::NAN; rows * dim];
    for (x, want) in x.rows().zip(want.chunks_exact_mut(dim)) {
        multi_cross::reference::multi_cross(x, &weights, &biases, want);
    }
    out.compare(report, "multi_cross", &format!("{layers} layers"), &want);
}

fn multiplied(ops: &Ops, random: &mut SplitMix, report: &mut Report, dim: usize, count: usize) {
    if report.skips("weight_multiply") {
        return;
    }
    let rows = 1 + random.below(20);
    let x = CaseRows::random(ops, random, [rows, count]);
    let weights = random.numbers(count * dim);
    let placed = ops.place_vector(&weights).expect("a small vector");
    let mut out = CaseOut::new(ops, random, [rows, count * dim]);
    ops.weight_multiply(x.view(), &placed, out.view_mut());
    let mut want = vec![f32::NAN; rows * count * dim];
    for (x, want) in x.rows().zip(want.chunks_exact_mut(count * dim)) {
        weight_multiply::reference::weight_multiply(x, &weights, want);
    }
    out.compare(report, "weight_multiply", &format!("{count} numbers"), &want);
}

fn paired(ops: &Ops, random: &mut SplitMix, report: &mut Report, dim: usize, count: usize) {
    if report.skips("fm_order2") {
        return;
    }
    let rows = 1 + random.below(20);
    let x = CaseRows::random(ops, random, [rows, count * dim]);
    let mut out = CaseOut::new(ops, random, [rows, dim]);
    ops.fm_order2(x.view(), out.view_mut());
    let mut want = vec![f32::NAN; rows * dim];
    for (x, want) in x.rows().zip(want.chunks_exact_mut(dim)) {
        fm_order2::reference::fm_order2(x, want);
    }
    out.compare(report, "fm_order2", &format!("{count} vectors"), &want);
}

fn reduced(ops: &Ops, random: &mut SplitMix, report: &mut Report, dim: usize, count: usize) {
    if report.skips("reduce_rows") {
        return;
    }
    let rows = 1 + random.below(20);
    // Of one sign, so that nothing cancels.
    let numbers = random.numbers(rows * count * dim).into_iter().map(f32::abs).collect();
    let x = CaseRows::of(ops, random, numbers, count * dim);
    for (kind, factor) in [(Reduction::Sum, 1.0), (Reduction::Mean, 1.0 / count as f32)] {
        let mut out = CaseOut::new(ops, random, [rows, dim]);
        ops.reduce_rows(x.view(), kind, out.view_mut());
        let mut want = vec![f32::NAN; rows * dim];
        for (x, want) in x.rows().zip(want.chunks_exact_mut(dim)) {
            reduce_rows::reference::reduce(x, factor, want);
        }
        out.compare(report, "reduce_rows", &format!("{kind:?} of {count}"), &want);
    }
}

fn diced(ops: &Ops, random: &mut SplitMix, report: &mut Report, shape: [usize; 2]) {
    if report.skips("dice") {
        return;
    }
    let x = CaseRows::random(ops, random, shape);
    let rule = DiceRule { alpha: 0.2, eps: 1e-3 };
    let mut out = CaseOut::new(ops, random, shape);
    ops.dice(x.view(), rule, out.view_mut());
    let mut want = vec![f32::NAN; shape[0] * shape[1]];
    dice::reference::dice(&x.numbers, shape[1], rule, &mut want);
    out.compare(report, "dice", "", &want);
}
