//! Gradients of ops that go row by row.

use terrace_device::{View, ViewMut};

use super::{Both, TOLERANCE};
use crate::conformance::{Report, SIZES, SplitMix};
use crate::elementwise::embed;
use crate::elementwise::gate::{Activation, GateGradients};
use crate::elementwise::rms_norm::RmsNormGradients;
use crate::elementwise::rope::{RopeAngles, RopeStyle};

pub(super) fn check(both: &Both<'_>, random: &mut SplitMix, report: &mut Report) {
    for dim in SIZES {
        for heads in [1, 3] {
            normed(both, random, report, [heads, dim]);
        }
    }
    for dim in SIZES {
        scaled(both, random, report, dim);
    }
    for dim in SIZES {
        for kind in [Activation::Silu, Activation::GeluTanh] {
            gated(both, random, report, dim, kind);
        }
    }
    for dim in SIZES {
        for style in [RopeStyle::Halves, RopeStyle::Interleaved] {
            rotated(both, random, report, dim, style);
        }
    }
    for hidden in SIZES.into_iter().chain([300, 513]) {
        embedded(both, random, report, hidden);
    }
}

fn normed(both: &Both<'_>, random: &mut SplitMix, report: &mut Report, [heads, dim]: [usize; 2]) {
    if report.skips("norm_grad") {
        return;
    }
    let tokens = 1 + random.below(40);
    let shape = [tokens, heads, dim];
    let count = tokens * heads * dim;
    let (x, d_out, before) = (random.numbers(count), random.numbers(count), random.numbers(count));
    let (weight, weight_before) = (random.numbers(dim), random.numbers(dim));
    let names = ["d_x", "d_weight"];
    both.compare(report, "norm_grad", &format!("{shape:?}"), &names, TOLERANCE, |ops| {
        let (mut d_x, mut d_weight) = (before.clone(), weight_before.clone());
        ops.rms_norm_gradients(RmsNormGradients {
            x: View::of(&x, shape),
            weight: View::of(&weight, [dim]),
            eps: 1e-5,
            d_out: View::of(&d_out, shape),
            d_x: ViewMut::of(&mut d_x, shape),
            d_weight: Some(ViewMut::of(&mut d_weight, [dim])),
        });
        vec![d_x, d_weight]
    });
}

fn scaled(both: &Both<'_>, random: &mut SplitMix, report: &mut Report, dim: usize) {
    if report.skips("scale_columns") {
        return;
    }
    let rows = 1 + random.below(30);
    let shape = [rows, dim];
    let (x, d_out) = (random.numbers(rows * dim), random.numbers(rows * dim));
    let (factors, added) = (random.numbers(dim), random.numbers(dim));
    let (mut out, mut sums) = (vec![f32::NAN; rows * dim], vec![0.5; dim]);
    let (x_view, factors_view) = (View::of(&x, shape), View::of(&factors, [dim]));
    both.ops.scale_columns(x_view, factors_view, ViewMut::of(&mut out, shape));
    both.ops.add_to_columns(ViewMut::of(&mut out, shape), View::of(&added, [dim]));
    both.ops.factor_gradients(x_view, View::of(&d_out, shape), ViewMut::of(&mut sums, [dim]));
    let number = |i: usize| x[i] * factors[i % dim] + added[i % dim];
    let want: Vec<f32> = (0..rows * dim).map(number).collect();
    let sum = |column: usize| -> f64 {
        let rows = (0..rows).map(|row| row * dim + column);
        0.5 + rows.map(|i| f64::from(x[i]) * f64::from(d_out[i])).sum::<f64>()
    };
    let want_sums: Vec<f32> = (0..dim).map(|column| sum(column) as f32).collect();
    report.compare("scale_columns", format!("{shape:?}"), TOLERANCE, &out, &want);
    report.compare("scale_columns", format!("sums, {shape:?}"), TOLERANCE, &sums, &want_sums);
}

fn gated(
    both: &Both<'_>,
    random: &mut SplitMix,
    report: &mut Report,
    dim: usize,
    kind: Activation,
) {
    if report.skips("gate_grad") {
        return;
    }
    let tokens = 1 + random.below(20);
    let shape = [tokens, dim];
    let numbers = |random: &mut SplitMix| -> Vec<f32> {
        random.numbers(tokens * dim).into_iter().map(|x| 6.0 * x).collect()
    };
    let [gate, up, d_out] = [numbers(random), numbers(random), numbers(random)];
    let (case, names) = (format!("{kind:?} {shape:?}"), ["gate", "up"]);
    both.compare(report, "gate_grad", &case, &names, TOLERANCE, |ops| {
        let (mut d_gate, mut d_up) = (vec![f32::NAN; tokens * dim], vec![f32::NAN; tokens * dim]);
        ops.gate_gradients(GateGradients {
            gate: View::of(&gate, shape),
            up: View::of(&up, shape),
            kind,
            d_out: View::of(&d_out, shape),
            d_gate: ViewMut::of(&mut d_gate, shape),
            d_up: ViewMut::of(&mut d_up, shape),
        });
        vec![d_gate, d_up]
    });
}

/// What is rotated and comes back is what it was, for angles without a scale.
fn rotated(
    both: &Both<'_>,
    random: &mut SplitMix,
    report: &mut Report,
    pairs: usize,
    style: RopeStyle,
) {
    if report.skips("rope_grad") {
        return;
    }
    let (tokens, heads, dim) = (1 + random.below(9), 1 + random.below(4), 2 * pairs + 3);
    let angles: Vec<f32> = random.numbers(tokens * pairs).iter().map(|x| 40.0 * x).collect();
    let (cos, sin): (Vec<f32>, Vec<f32>) = angles.iter().map(|x| (x.cos(), x.sin())).unzip();
    let shape = [tokens, pairs];
    let angles = RopeAngles { cos: View::of(&cos, shape), sin: View::of(&sin, shape) };
    let x = random.numbers(tokens * heads * dim);
    let mut there_and_back = x.clone();
    let shape = [tokens, heads, dim];
    both.ops.rope(ViewMut::of(&mut there_and_back, shape), angles, style);
    both.ops.rope_gradient(ViewMut::of(&mut there_and_back, shape), angles, style);
    let case = format!("{style:?} {shape:?}");
    report.compare("rope_grad", case, TOLERANCE, &there_and_back, &x);
}

fn embedded(both: &Both<'_>, random: &mut SplitMix, report: &mut Report, hidden: usize) {
    if report.skips("embed_grad") {
        return;
    }
    let (tokens, vocab) = (1 + random.below(50), 1 + random.below(20));
    let ids: Vec<i32> = (0..tokens).map(|_| random.below(vocab) as i32).collect();
    let (d_out, before) = (random.numbers(tokens * hidden), random.numbers(vocab * hidden));
    let (mut got, mut want) = (before.clone(), before);
    let d_table = ViewMut::of(&mut got, [vocab, hidden]);
    both.ops.embed_gradient(View::of(&ids, [tokens]), View::of(&d_out, [tokens, hidden]), d_table);
    embed::reference::gradient(&ids, &d_out, hidden, &mut want);
    report.compare_exactly("embed_grad", format!("{tokens} of {hidden}"), &got, &want);
}
