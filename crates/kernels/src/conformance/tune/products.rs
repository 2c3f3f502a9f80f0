//! Gradients of products and of branches of low rank.

use std::sync::Arc;

use terrace_device::{Buffer, View, ViewMut};

use super::{Both, TOLERANCE};
use crate::conformance::{Report, SplitMix};
use crate::linear::backward::reference;
use crate::linear::biased_weight::BiasedWeight;
use crate::linear::linear::Linear;
use crate::linear::lora::{LoraBranch, LoraGradients};
use crate::linear::matrix::Matrix;
use crate::linear::unpack::unpack_row;
use crate::linear::weight_format::WeightFormat;

pub(super) fn check(both: &Both<'_>, random: &mut SplitMix, report: &mut Report) {
    for format in WeightFormat::ALL {
        for tokens in [1, 5, 33, 70] {
            let rows = 1 + random.below(100);
            through_weight(both, random, report, format, [tokens, rows]);
        }
    }
    // More inputs and rows than are multiplied at a time, one way and the other.
    through_weight(both, random, report, WeightFormat::Q4_1, [270, 4200]);
    through_weight(both, random, report, WeightFormat::F32, [3, 2049]);
    for rows in [1, 7, 8, 31, 66] {
        for tokens in [1, 4, 31, 65] {
            to_weight(both, random, report, [tokens, rows]);
        }
    }
    for rank in [1, 4, 8, 9] {
        for tokens in [1, 6, 41] {
            branched(both, random, report, rank, tokens);
        }
    }
}

fn through_weight(
    both: &Both<'_>,
    random: &mut SplitMix,
    report: &mut Report,
    format: WeightFormat,
    [tokens, rows]: [usize; 2],
) {
    if report.skips("input_grad") {
        return;
    }
    let columns = match format.block_weights() {
        1 => 1 + random.below(90),
        block => block * (1 + random.below(3)),
    };
    let bytes = random.weights(format, rows * columns);
    let row_bytes = bytes.len() / rows;
    let linear = both.ops.place(BiasedWeight { weight: matrix(format, rows, &bytes), bias: None });
    let mut weight = vec![0.0; rows * columns];
    for (bytes, row) in bytes.chunks_exact(row_bytes).zip(weight.chunks_exact_mut(columns)) {
        unpack_row(format, bytes, row);
    }
    let weight = both.rounded(&weight);
    let case = format!("{} {rows} x {columns}, {tokens} tokens", format.name());
    let (d_out, before) = (random.numbers(tokens * rows), random.numbers(tokens * columns));
    let (mut got, mut want) = (before.clone(), before);
    let d_x = ViewMut::of(&mut got, [tokens, columns]);
    both.ops.input_gradient(View::of(&d_out, [tokens, rows]), &linear, d_x);
    let d_out = both.rounded(&d_out);
    for (d_out, d_x) in d_out.chunks_exact(rows).zip(want.chunks_exact_mut(columns)) {
        reference::input_gradient(d_out, &weight, d_x);
    }
    report.compare("input_grad", case.clone(), TOLERANCE, &got, &want);
    let (x, mut got) = (random.numbers(tokens * columns), vec![f32::NAN; tokens * rows]);
    both.ops.project(
        View::of(&x, [tokens, columns]),
        &linear,
        ViewMut::of(&mut got, [tokens, rows]),
    );
    let (x, weight) = (both.rounded(&x), weight.chunks_exact(columns));
    let dot = |x: &[f32], row: &[f32]| {
        x.iter().zip(row).map(|(x, weight)| f64::from(*x) * f64::from(*weight)).sum::<f64>() as f32
    };
    let rows = x.chunks_exact(columns).map(|x| weight.clone().map(move |row| dot(x, row)));
    report.compare("project", case, TOLERANCE, &got, &rows.flatten().collect::<Vec<_>>());
}

fn to_weight(
    both: &Both<'_>,
    random: &mut SplitMix,
    report: &mut Report,
    [tokens, rows]: [usize; 2],
) {
    if report.skips("weight_grad") {
        return;
    }
    let columns = 1 + random.below(100);
    let (x, d_out) = (random.numbers(tokens * columns), random.numbers(tokens * rows));
    let (before, bias_before) = (random.numbers(rows * columns), random.numbers(rows));
    let (mut got, mut want) = (before.clone(), before);
    let (mut bias_got, mut bias_want) = (bias_before.clone(), bias_before);
    let d_out_view = View::of(&d_out, [tokens, rows]);
    let d_weight = ViewMut::of(&mut got, [rows, columns]);
    both.ops.weight_gradient(d_out_view, View::of(&x, [tokens, columns]), d_weight);
    both.ops.bias_gradient(d_out_view, ViewMut::of(&mut bias_got, [rows]));
    reference::weight_gradient(&d_out, &x, columns, &mut want);
    reference::bias_gradient(&d_out, &mut bias_want);
    let case = format!("{rows} x {columns}, {tokens} tokens");
    report.compare("weight_grad", case.clone(), TOLERANCE, &got, &want);
    report.compare("bias_grad", case, TOLERANCE, &bias_got, &bias_want);
}

fn branched(
    both: &Both<'_>,
    random: &mut SplitMix,
    report: &mut Report,
    rank: usize,
    tokens: usize,
) {
    if report.skips("lora") {
        return;
    }
    let (rows, columns) = (1 + random.below(50), 1 + random.below(50));
    let x = random.numbers(tokens * columns);
    let d_out = random.numbers(tokens * rows);
    let mut placed = |rows, columns| -> Linear {
        let bytes = random.weights(WeightFormat::F32, rows * columns);
        both.ops.place(BiasedWeight { weight: matrix(WeightFormat::F32, rows, &bytes), bias: None })
    };
    let (a, b, weight) = (placed(rank, columns), placed(rows, rank), placed(rows, columns));
    let branch = LoraBranch { a: &a, b: &b, scale: 0.7 };
    let names = ["out", "inner", "d_x", "d_a", "d_b", "norms"];
    let case = format!("{rows} x {columns}, rank {rank}, {tokens} tokens");
    both.compare(report, "lora", &case, &names, TOLERANCE, |ops| {
        let [mut out, mut norms] = [vec![0.5; tokens * rows], vec![f32::NAN; rows]];
        let [mut inner, mut d_inner] = [(); 2].map(|()| vec![f32::NAN; tokens * rank]);
        let mut d_x = vec![0.25; tokens * columns];
        let [mut d_a, mut d_b] = [vec![0.125; rank * columns], vec![0.5; rows * rank]];
        let x = View::of(&x, [tokens, columns]);
        let inner_view = ViewMut::of(&mut inner, [tokens, rank]);
        ops.add_branch(x, branch, inner_view, ViewMut::of(&mut out, [tokens, rows]));
        ops.lora_gradients(
            branch,
            LoraGradients {
                x,
                inner: View::of(&inner, [tokens, rank]),
                d_out: View::of(&d_out, [tokens, rows]),
                d_inner: ViewMut::of(&mut d_inner, [tokens, rank]),
                d_x: ViewMut::of(&mut d_x, [tokens, columns]),
                d_a: ViewMut::of(&mut d_a, [rank, columns]),
                d_b: ViewMut::of(&mut d_b, [rows, rank]),
            },
        );
        ops.branch_row_norms(&weight, branch, ViewMut::of(&mut norms, [rows]));
        vec![out, inner, d_x, d_a, d_b, norms]
    });
}

pub(super) fn matrix(format: WeightFormat, rows: usize, bytes: &[u8]) -> Matrix {
    let mut buffer = Buffer::zeroed(bytes.len(), "a small matrix").expect("host memory suffices");
    buffer.bytes_mut().copy_from_slice(bytes);
    let columns = bytes.len() / rows / format.block_bytes() * format.block_weights();
    Matrix::new(format, rows, columns, Arc::new(buffer))
}
