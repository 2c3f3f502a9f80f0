//! Ops that work row by row, and those that only move bytes.

use terrace_device::DType;

use crate::conformance::copies::PageCopies;
use crate::conformance::numbers::rounded;
use crate::conformance::placed::Placed;
use crate::conformance::report::Limit;
use crate::conformance::{Report, SIZES, SplitMix};
use crate::elementwise::rope_angles::{RopeAnglesArgs, RopeFrequencies};
use crate::elementwise::{rms_norm, rope_angles};
use crate::ops::Ops;

const EPS: f32 = 1e-5;
const ROW_TOLERANCE: f64 = 1e-6;
/// A sine of f64 that is rounded to f32 may be on the other side of a tie.
const ANGLE_TOLERANCE: f64 = 2e-7;

pub(super) fn check(ops: &Ops, random: &mut SplitMix, report: &mut Report) {
    for dim in SIZES.into_iter().chain([576, 5000, 8192, 9001, 20_000]) {
        rms_norm(ops, random, report, dim);
    }
    for dim in SIZES.into_iter().chain([576, 4096, 12_288]) {
        add_rms_norm(ops, random, report, dim);
    }
    for pairs in SIZES {
        rope_angles(ops, random, report, pairs);
    }
    for dim in SIZES.into_iter().chain([4096]) {
        gather_rows(ops, random, report, dim);
    }
    for page_bytes in SIZES.into_iter().chain([4096, 70_000]) {
        copy_pages(ops, random, report, page_bytes);
    }
}

fn rms_norm(ops: &Ops, random: &mut SplitMix, report: &mut Report, dim: usize) {
    if report.skips("rms_norm") {
        return;
    }
    let (device, act, rows) = (ops.device(), ops.activation(), 1 + random.below(20));
    let (x, weight) = (random.numbers(rows * dim), random.numbers(dim));
    let norm = ops.place_vector(&weight).expect("a small vector");
    let placed = Placed::of(&device, &x, [rows, dim]);
    let mut out = Placed::poisoned(&device, act, [rows, dim]);
    ops.rms_norm(placed.view(), &norm, EPS, out.view_mut());
    let mut want = vec![f32::NAN; rows * dim];
    for (x, want) in x.chunks_exact(dim).zip(want.chunks_exact_mut(dim)) {
        rms_norm::reference::norm(x, &weight, EPS, want);
    }
    let (case, limit) = (format!("{} {rows}x{dim}", act.name()), Limit::of(act, ROW_TOLERANCE));
    report.compare_each("rms_norm", case, limit, &out.to_numbers(), &want);
}

fn add_rms_norm(ops: &Ops, random: &mut SplitMix, report: &mut Report, dim: usize) {
    if report.skips("add_rms_norm") {
        return;
    }
    let (device, act, rows) = (ops.device(), ops.activation(), 1 + random.below(20));
    let (mut sum, delta) = (random.numbers(rows * dim), random.numbers(rows * dim));
    let weight = random.numbers(dim);
    let norm = ops.place_vector(&weight).expect("a small vector");
    let mut placed_sum = Placed::of(&device, &sum, [rows, dim]);
    let placed_delta = Placed::of(&device, &delta, [rows, dim]);
    let mut out = Placed::poisoned(&device, act, [rows, dim]);
    let (sum_view, delta_view) = (placed_sum.view_mut(), placed_delta.view());
    ops.add_rms_norm(sum_view, delta_view, &norm, EPS, out.view_mut());
    rms_norm::reference::add(&mut sum, &delta);
    let mut want = vec![f32::NAN; rows * dim];
    for (sum, want) in sum.chunks_exact(dim).zip(want.chunks_exact_mut(dim)) {
        rms_norm::reference::norm(sum, &weight, EPS, want);
    }
    let case = format!("sum {rows}x{dim}");
    report.compare_exactly("add_rms_norm", case, &placed_sum.to_numbers(), &sum);
    let (case, limit) = (format!("{} {rows}x{dim}", act.name()), Limit::of(act, ROW_TOLERANCE));
    report.compare_each("add_rms_norm", case, limit, &out.to_numbers(), &want);
}

fn rope_angles(ops: &Ops, random: &mut SplitMix, report: &mut Report, pairs: usize) {
    if report.skips("rope_angles") {
        return;
    }
    let (device, tokens) = (ops.device(), 1 + random.below(40));
    let positions: Vec<i32> = (0..tokens).map(|_| random.below(1_000_000) as i32).collect();
    // All rows are rotated alike, or each as its sequence is.
    let seqs = [1, 3][random.below(2)];
    let (inv_freqs, scale) = (random.numbers(seqs * pairs), random.number());
    let row_seqs: Vec<i32> = (0..tokens).map(|_| random.below(seqs) as i32).collect();
    let placed = Placed::of(&device, &positions, [tokens]);
    let placed_freqs = Placed::of(&device, &inv_freqs, [seqs, pairs]);
    let placed_seqs = Placed::of(&device, &row_seqs, [tokens]);
    let frequencies = RopeFrequencies {
        inv_freqs: placed_freqs.view(),
        row_seqs: (1 < seqs).then(|| placed_seqs.view()),
    };
    let mut cos = Placed::poisoned(&device, DType::F32, [tokens, pairs]);
    let mut sin = Placed::poisoned(&device, DType::F32, [tokens, pairs]);
    ops.rope_angles(RopeAnglesArgs {
        positions: placed.view(),
        frequencies,
        scale,
        cos: cos.view_mut(),
        sin: sin.view_mut(),
    });
    let (mut want_cos, mut want_sin) = (Vec::new(), Vec::new());
    for (&position, &seq) in positions.iter().zip(&row_seqs) {
        let inv_freq = &inv_freqs[seq as usize * pairs..][..pairs];
        let (mut cos, mut sin) = (vec![f32::NAN; pairs], vec![f32::NAN; pairs]);
        rope_angles::reference::angles(position, inv_freq, scale, &mut cos, &mut sin);
        want_cos.extend(cos);
        want_sin.extend(sin);
    }
    let got = [cos.to_numbers(), sin.to_numbers()].concat();
    let want = [want_cos, want_sin].concat();
    report.compare_each("rope_angles", format!("{tokens}x{pairs}"), ANGLE_TOLERANCE, &got, &want);
}

fn gather_rows(ops: &Ops, random: &mut SplitMix, report: &mut Report, dim: usize) {
    if report.skips("gather_rows") {
        return;
    }
    let (device, act) = (ops.device(), ops.activation());
    let (tokens, picked) = (13, 1 + random.below(20));
    let x = rounded(random.numbers(tokens * dim), act);
    let rows: Vec<i32> = (0..picked).map(|_| random.below(tokens) as i32).collect();
    let placed = Placed::numbers(&device, act, &x, [tokens, dim]);
    let placed_rows = Placed::of(&device, &rows, [picked]);
    let mut out = Placed::poisoned(&device, act, [picked, dim]);
    ops.gather_rows(placed.view(), placed_rows.view(), out.view_mut());
    let want: Vec<f32> =
        rows.iter().flat_map(|&row| &x[row as usize * dim..][..dim]).copied().collect();
    let case = format!("{} {picked} of {tokens}x{dim}", act.name());
    report.compare_exactly("gather_rows", case, &out.to_numbers(), &want);
}

fn copy_pages(ops: &Ops, random: &mut SplitMix, report: &mut Report, page_bytes: usize) {
    if report.skips("copy_pages") {
        return;
    }
    let PageCopies { pages, pairs, want } = PageCopies::random(random, page_bytes);
    let (device, copies) = (ops.device(), pairs.len() / 2);
    let mut placed = Placed::of(&device, &pages, [pages.len() / page_bytes, page_bytes]);
    let placed_pairs = Placed::of(&device, &pairs, [copies, 2]);
    ops.copy_pages(placed.view_mut(), placed_pairs.view());
    let case = format!("{copies} copies of {page_bytes} bytes");
    report.compare_exactly("copy_pages", case, &placed.bytes(), &want);
}
