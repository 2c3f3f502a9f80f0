//! Ops that work row by row: norms, rotation, cast, gate.

use half::{bf16, f16};
use terrace_device::{View, ViewMut};

use super::{Report, SIZES, SplitMix};
use crate::cpu_ops::CpuOps;
use crate::elementwise::gate::Activation;
use crate::elementwise::rope::{RopeAngles, RopeStyle};
use crate::elementwise::rope_angles::{RopeAnglesArgs, RopeFrequencies};
use crate::elementwise::{cast, gate, rms_norm, rope, rope_angles};

const EPS: f32 = 1e-5;
/// A few f32 roundings per number.
const ROW_TOLERANCE: f64 = 1e-6;
/// The exponent of a GELU reaches 12 here, which makes twelve of each rounding before it.
const GATE_TOLERANCE: f64 = 4e-6;

pub(super) fn check(ops: &CpuOps, random: &mut SplitMix, report: &mut Report) {
    for dim in SIZES.into_iter().chain([576, 5000]) {
        rms_norm(ops, random, report, dim);
    }
    for dim in SIZES.into_iter().chain([576]) {
        rms_norm_heads(ops, random, report, dim);
    }
    for dim in SIZES.into_iter().chain([576]) {
        add_rms_norm(ops, random, report, dim);
    }
    for pairs in SIZES {
        rope_angles(ops, random, report, pairs);
    }
    for pairs in SIZES {
        for style in [RopeStyle::Halves, RopeStyle::Interleaved] {
            rope(ops, random, report, pairs, style);
        }
    }
    for dim in SIZES {
        cast(ops, random, report, dim);
    }
    for dim in SIZES.into_iter().chain([1536]) {
        for kind in [Activation::Silu, Activation::GeluTanh] {
            gate(ops, random, report, dim, kind);
        }
    }
}

fn rms_norm(ops: &CpuOps, random: &mut SplitMix, report: &mut Report, dim: usize) {
    if report.skips("rms_norm") {
        return;
    }
    let rows = 1 + random.below(20);
    let (x, weight) = (random.numbers(rows * dim), random.numbers(dim));
    let (mut got, mut want) = (vec![f32::NAN; rows * dim], vec![f32::NAN; rows * dim]);
    let out = ViewMut::of(&mut got, [rows, dim]);
    rms_norm::rms_norm(&ops.ctx, View::of(&x, [rows, dim]), View::of(&weight, [dim]), EPS, out);
    for (x, want) in x.chunks_exact(dim).zip(want.chunks_exact_mut(dim)) {
        rms_norm::reference::norm(x, &weight, EPS, want);
    }
    report.compare_each("rms_norm", format!("{rows}x{dim}"), ROW_TOLERANCE, &got, &want);
}

/// In place, over heads of a row with other columns behind them, which must stay as they are.
fn rms_norm_heads(ops: &CpuOps, random: &mut SplitMix, report: &mut Report, dim: usize) {
    if report.skips("rms_norm_heads") {
        return;
    }
    let (tokens, heads, behind) = (1 + random.below(20), 3, 5);
    let width = heads * dim + behind;
    let (mut got, weight) = (random.numbers(tokens * width), random.numbers(dim));
    let mut want = got.clone();
    let [x, _] = ViewMut::of(&mut got, [tokens, width]).split_columns([heads * dim, behind]);
    rms_norm::rms_norm_heads(&ops.ctx, x.split_heads(heads), View::of(&weight, [dim]), EPS);
    for row in want.chunks_exact_mut(width) {
        for head in row[..heads * dim].chunks_exact_mut(dim) {
            rms_norm::reference::norm_in_place(head, &weight, EPS);
        }
    }
    let case = format!("{tokens}x{heads}x{dim}");
    report.compare_each("rms_norm_heads", case, ROW_TOLERANCE, &got, &want);
}

fn add_rms_norm(ops: &CpuOps, random: &mut SplitMix, report: &mut Report, dim: usize) {
    if report.skips("add_rms_norm") {
        return;
    }
    let rows = 1 + random.below(20);
    let (delta, weight) = (random.numbers(rows * dim), random.numbers(dim));
    let mut got_sum = random.numbers(rows * dim);
    let (mut got, mut want) = (vec![f32::NAN; rows * dim], vec![f32::NAN; rows * dim]);
    let mut want_sum = got_sum.clone();
    rms_norm::add_rms_norm(
        &ops.ctx,
        ViewMut::of(&mut got_sum, [rows, dim]),
        View::of(&delta, [rows, dim]),
        View::of(&weight, [dim]),
        EPS,
        ViewMut::of(&mut got, [rows, dim]),
    );
    rms_norm::reference::add(&mut want_sum, &delta);
    for (sum, want) in want_sum.chunks_exact(dim).zip(want.chunks_exact_mut(dim)) {
        rms_norm::reference::norm(sum, &weight, EPS, want);
    }
    report.compare_exactly("add_rms_norm", format!("sum {rows}x{dim}"), &got_sum, &want_sum);
    report.compare_each("add_rms_norm", format!("{rows}x{dim}"), ROW_TOLERANCE, &got, &want);
}

fn rope_angles(ops: &CpuOps, random: &mut SplitMix, report: &mut Report, pairs: usize) {
    if report.skips("rope_angles") {
        return;
    }
    let tokens = 1 + random.below(40);
    let positions: Vec<i32> = (0..tokens).map(|_| random.below(100_000) as i32).collect();
    let inv_freqs = random.numbers(3 * pairs);
    let row_seqs: Vec<i32> = (0..tokens).map(|_| random.below(3) as i32).collect();
    let frequencies = RopeFrequencies {
        inv_freqs: View::of(&inv_freqs, [3, pairs]),
        row_seqs: Some(View::of(&row_seqs, [tokens])),
    };
    let (scale, shape) = (random.number(), [tokens, pairs]);
    let mut got = vec![f32::NAN; 2 * tokens * pairs];
    let (cos, sin) = got.split_at_mut(tokens * pairs);
    let (cos, sin) = (ViewMut::of(cos, shape), ViewMut::of(sin, shape));
    let placed = View::of(&positions, [tokens]);
    let args = RopeAnglesArgs { positions: placed, frequencies, scale, cos, sin };
    rope_angles::rope_angles(&ops.ctx, args);
    let mut want = vec![f32::NAN; 2 * tokens * pairs];
    let (cos, sin) = want.split_at_mut(tokens * pairs);
    for (token, &position) in positions.iter().enumerate() {
        let row = token * pairs..(token + 1) * pairs;
        let (cos, sin) = (&mut cos[row.clone()], &mut sin[row]);
        let inv_freq = frequencies.inv_freqs.row(row_seqs[token] as usize);
        rope_angles::reference::angles(position, inv_freq, scale, cos, sin);
    }
    report.compare_exactly("rope_angles", format!("{tokens}x{pairs}"), &got, &want);
}

/// With elements behind the rotated ones in each head, which must stay as they are.
fn rope(ops: &CpuOps, random: &mut SplitMix, report: &mut Report, pairs: usize, style: RopeStyle) {
    if report.skips("rope") {
        return;
    }
    let (tokens, heads, dim) = (1 + random.below(20), 3, 2 * pairs + random.below(4));
    let (cos, sin) = (random.numbers(tokens * pairs), random.numbers(tokens * pairs));
    let mut got = random.numbers(tokens * heads * dim);
    let mut want = got.clone();
    let angles =
        RopeAngles { cos: View::of(&cos, [tokens, pairs]), sin: View::of(&sin, [tokens, pairs]) };
    rope::rope(&ops.ctx, ViewMut::of(&mut got, [tokens, heads, dim]), angles, style);
    for (token, row) in want.chunks_exact_mut(heads * dim).enumerate() {
        let (cos, sin) = (angles.cos.row::<f32>(token), angles.sin.row::<f32>(token));
        for head in row.chunks_exact_mut(dim) {
            match style {
                RopeStyle::Halves => rope::reference::rotate_halves(head, cos, sin),
                RopeStyle::Interleaved => rope::reference::rotate_interleaved(head, cos, sin),
            }
        }
    }
    let case = format!("{style:?} {tokens}x{heads}x{dim}, {pairs} pairs");
    report.compare_exactly("rope", case, &got, &want);
}

/// From strided rows, with numbers that f16 cannot hold.
fn cast(ops: &CpuOps, random: &mut SplitMix, report: &mut Report, dim: usize) {
    if report.skips("cast") {
        return;
    }
    let (rows, stride) = (1 + random.below(20), dim + 3);
    let mut x = random.numbers(rows * stride);
    for x in &mut x {
        *x *= [1.0, 1e-7, 1e5, 1e30][random.below(4)];
    }
    let view = View::of(&x, [rows, stride]).columns(1, dim);
    let dense: Vec<f32> = (0..rows).flat_map(|row| view.row::<f32>(row).to_vec()).collect();
    let case = |name: &str| format!("{name} {rows}x{dim}");

    let mut got = vec![f32::NAN; rows * dim];
    cast::cast(&ops.ctx, view, ViewMut::of(&mut got, [rows, dim]));
    report.compare_exactly("cast", case("f32"), &got, &dense);

    let (mut got, mut want) = (vec![f16::NAN; rows * dim], vec![f16::NAN; rows * dim]);
    cast::cast(&ops.ctx, view, ViewMut::of(&mut got, [rows, dim]));
    cast::reference::to_f16(&dense, &mut want);
    report.compare_exactly("cast", case("f16"), &got, &want);

    let (mut got, mut want) = (vec![bf16::NAN; rows * dim], vec![bf16::NAN; rows * dim]);
    cast::cast(&ops.ctx, view, ViewMut::of(&mut got, [rows, dim]));
    cast::reference::to_bf16(&dense, &mut want);
    report.compare_exactly("cast", case("bf16"), &got, &want);
}

/// Both inputs are column blocks of one matrix, as a fused projection leaves them.
fn gate(ops: &CpuOps, random: &mut SplitMix, report: &mut Report, dim: usize, kind: Activation) {
    if report.skips("gate") {
        return;
    }
    let tokens = 1 + random.below(20);
    let mut both = random.numbers(tokens * 2 * dim);
    both.iter_mut().for_each(|x| *x *= 4.0);
    let view = View::of(&both, [tokens, 2 * dim]);
    let (gates, ups) = (view.columns(0, dim), view.columns(dim, dim));
    let (mut got, mut want) = (vec![f32::NAN; tokens * dim], vec![f32::NAN; tokens * dim]);
    gate::gate(&ops.ctx, gates, ups, kind, ViewMut::of(&mut got, [tokens, dim]));
    for (token, want) in want.chunks_exact_mut(dim).enumerate() {
        gate::reference::gate(gates.row(token), ups.row(token), kind, want);
    }
    report.compare_each("gate", format!("{kind:?} {tokens}x{dim}"), GATE_TOLERANCE, &got, &want);
}
