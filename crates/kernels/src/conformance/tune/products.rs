//! Gradients of products and of branches of low rank.

use std::sync::Arc;

use terrace_device::{Buffer, DType};

use super::{Both, TOLERANCE};
use crate::conformance::placed::Placed;
use crate::conformance::{Report, SplitMix, numbers};
use crate::linear::backward::reference;
use crate::linear::biased_weight::BiasedWeight;
use crate::linear::linear::Linear;
use crate::linear::lora::{LoraBranch, LoraGradients};
use crate::linear::matrix::Matrix;
use crate::linear::unpack::unpack_row;
use crate::linear::weight_format::WeightFormat;
use crate::tune_ops::TuneOps;

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
        1 => both.whole_columns(1 + random.below(90)),
        block => block * (1 + random.below(3)),
    };
    let bytes = random.weights(format, rows * columns);
    let row_bytes = bytes.len() / rows;
    let weight = BiasedWeight { weight: matrix(format, rows, &bytes), bias: None };
    let linear = both.ops.place(weight).expect("memory for a small weight");
    let mut weight = vec![0.0; rows * columns];
    for (bytes, row) in bytes.chunks_exact(row_bytes).zip(weight.chunks_exact_mut(columns)) {
        unpack_row(format, bytes, row);
    }
    let weight = both.rounded(&weight);
    let case = format!("{} {rows} x {columns}, {tokens} tokens", format.name());
    let (d_out, mut want) = (random.numbers(tokens * rows), random.numbers(tokens * columns));
    let mut d_x = both.exact(&want, [tokens, columns]);
    let d_out_placed = both.exact(&d_out, [tokens, rows]);
    let done = both.ops.input_gradient(d_out_placed.view(), &linear, d_x.view_mut());
    done.expect("memory for small rows");
    let d_out = both.rounded(&d_out);
    for (d_out, d_x) in d_out.chunks_exact(rows).zip(want.chunks_exact_mut(columns)) {
        reference::input_gradient(d_out, &weight, d_x);
    }
    report.compare("input_grad", case.clone(), TOLERANCE, &d_x.to_numbers(), &want);
    let x = both.rounded(&random.numbers(tokens * columns));
    let mut got = Placed::poisoned(&both.device, DType::F32, [tokens, rows]);
    both.ops.project(both.act(&x, [tokens, columns]).view(), &linear, got.view_mut());
    let weight = weight.chunks_exact(columns);
    let dot = |x: &[f32], row: &[f32]| {
        x.iter().zip(row).map(|(x, weight)| f64::from(*x) * f64::from(*weight)).sum::<f64>() as f32
    };
    let rows = x.chunks_exact(columns).map(|x| weight.clone().map(move |row| dot(x, row)));
    let want = rows.flatten().collect::<Vec<_>>();
    report.compare("project", case, TOLERANCE, &got.to_numbers(), &want);
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
    // Here the CPU rounds nothing, whatever it does elsewhere.
    let rounded = |numbers: Vec<f32>| numbers::rounded(numbers, both.act);
    let x = rounded(random.numbers(tokens * columns));
    let d_out = rounded(random.numbers(tokens * rows));
    let (mut want, mut bias_want) = (random.numbers(rows * columns), random.numbers(rows));
    let mut got = both.exact(&want, [rows, columns]);
    let mut bias_got = both.exact(&bias_want, [rows]);
    let d_out_placed = both.exact(&d_out, [tokens, rows]);
    let x_placed = both.act(&x, [tokens, columns]);
    let done = both.ops.weight_gradient(d_out_placed.view(), x_placed.view(), got.view_mut());
    done.expect("memory for small rows");
    both.ops.bias_gradient(d_out_placed.view(), bias_got.view_mut());
    reference::weight_gradient(&d_out, &x, columns, &mut want);
    reference::bias_gradient(&d_out, &mut bias_want);
    let case = format!("{rows} x {columns}, {tokens} tokens");
    report.compare("weight_grad", case.clone(), TOLERANCE, &got.to_numbers(), &want);
    report.compare("bias_grad", case, TOLERANCE, &bias_got.to_numbers(), &bias_want);
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
    let (rows, columns) = (1 + random.below(50), both.whole_columns(1 + random.below(50)));
    let numbers = |random: &mut SplitMix, count| numbers::rounded(random.numbers(count), both.act);
    let x = numbers(random, tokens * columns);
    let d_out = numbers(random, tokens * rows);
    let [a, b, weight] = [(rank, columns), (rows, rank), (rows, columns)]
        .map(|(rows, columns)| numbers(random, rows * columns));
    let names = ["out", "inner", "d_x", "d_a", "d_b", "norms"];
    let case = format!("{rows} x {columns}, rank {rank}, {tokens} tokens");
    // Of the CPU's vectors and of f32 nothing is rounded on the way.
    let tolerance = if both.act == DType::F32 { TOLERANCE } else { both.tolerance() };
    both.compare(report, "lora", &case, &names, tolerance, |ops| {
        let place = |numbers: &[f32], rows| trained(ops, numbers, rows);
        let (a, b, weight) = (place(&a, rank), place(&b, rows), place(&weight, rows));
        let branch = LoraBranch { a: &a, b: &b, scale: 0.7 };
        let (device, act) = (ops.device(), ops.activation());
        let even = |count: usize, number| vec![number; count];
        let exact = |numbers: Vec<f32>, shape: [usize; 2]| Placed::of(&device, &numbers, shape);
        let poisoned = |dtype| Placed::poisoned(&device, dtype, [tokens, rank]);
        let mut out = exact(even(tokens * rows, 0.5), [tokens, rows]);
        let mut norms = Placed::poisoned(&device, DType::F32, [rows]);
        let (mut inner, mut d_inner) = (poisoned(act), poisoned(act));
        let mut d_x = exact(even(tokens * columns, 0.25), [tokens, columns]);
        let mut d_a = exact(even(rank * columns, 0.125), [rank, columns]);
        let mut d_b = exact(even(rows * rank, 0.5), [rows, rank]);
        let x = Placed::numbers(&device, act, &x, [tokens, columns]);
        let d_out = exact(d_out.clone(), [tokens, rows]);
        ops.add_branch(x.view(), branch, inner.view_mut(), out.view_mut());
        let args = LoraGradients {
            x: x.view(),
            inner: inner.view(),
            d_out: d_out.view(),
            d_inner: d_inner.view_mut(),
            d_x: d_x.view_mut(),
            d_a: d_a.view_mut(),
            d_b: d_b.view_mut(),
        };
        ops.lora_gradients(branch, args).expect("memory for small rows");
        ops.branch_row_norms(&weight, branch, norms.view_mut()).expect("memory for small rows");
        [out, inner, d_x, d_a, d_b, norms].iter().map(Placed::to_numbers).collect()
    });
}

/// A weight of f32 that is changed.
pub(super) fn trained(ops: &TuneOps<'_>, numbers: &[f32], rows: usize) -> Linear {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let weight = matrix(WeightFormat::F32, rows, &bytes);
    ops.place_trained(weight).expect("memory for a small weight")
}

pub(super) fn matrix(format: WeightFormat, rows: usize, bytes: &[u8]) -> Matrix {
    let mut buffer = Buffer::zeroed(bytes.len(), "a small matrix").expect("host memory suffices");
    buffer.bytes_mut().copy_from_slice(bytes);
    let columns = bytes.len() / rows / format.block_bytes() * format.block_weights();
    Matrix::new(format, rows, columns, Arc::new(buffer))
}
