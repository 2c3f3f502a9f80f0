//! Products that end in a function of each number.

use std::sync::Arc;

use terrace_device::Buffer;

use super::case_rows::{CaseOut, CaseRows};
use super::rows::ACTIVATIONS;
use crate::conformance::{Report, SplitMix};
use crate::ctr::activation;
use crate::linear::biased_weight::BiasedWeight;
use crate::linear::matrix::Matrix;
use crate::linear::weight_format::WeightFormat;
use crate::ops::Ops;

pub(super) fn check(ops: &Ops, random: &mut SplitMix, report: &mut Report) {
    for outputs in [1, 2, 3, 4, 5, 16, 33, 64, 100] {
        for columns in [8, 16, 40, 232, 1024] {
            for rows in [1, 7, 100] {
                project(ops, random, report, [rows, columns], outputs);
            }
        }
    }
}

/// Weights and inputs are such that every arithmetic has them exactly, and sums are short enough.
fn project(
    ops: &Ops,
    random: &mut SplitMix,
    report: &mut Report,
    [rows, columns]: [usize; 2],
    outputs: usize,
) {
    if report.skips("project_activated") {
        return;
    }
    let scale = (-(columns as f32).sqrt().log2().round()).exp2();
    let weights = few_bits(random, outputs * columns).into_iter().map(|weight| weight * scale);
    let weights: Vec<f32> = weights.collect();
    let numbers = few_bits(random, rows * columns);
    let bias = (random.below(2) == 0).then(|| few_bits(random, outputs));
    let x = CaseRows::of_product(ops, random, numbers, columns);
    let weight = matrix(&weights, outputs, columns);
    let placed = ops.place_product(BiasedWeight { weight, bias: bias.clone() });
    let placed = placed.expect("a small matrix");
    let activation = ACTIVATIONS.get(random.below(4)).copied();
    let mut out = CaseOut::of_any_type(ops, random, [rows, outputs]);
    ops.project_activated(x.view(), &placed, activation, out.view_mut());
    let mut want = Vec::with_capacity(rows * outputs);
    for x in x.rows() {
        for (output, weights) in weights.chunks_exact(columns).enumerate() {
            let products = x.iter().zip(weights).map(|(x, w)| f64::from(*x) * f64::from(*w));
            let bias = bias.as_ref().map_or(0.0, |bias| bias[output]);
            want.push((products.sum::<f64>() + f64::from(bias)) as f32);
        }
    }
    if let Some(kind) = activation {
        activation::reference::activate(&mut want, kind);
    }
    out.compare(report, "project_activated", &format!("{columns} columns, {activation:?}"), &want);
}

/// Of seven bits and a sign, which every type and fixed point have.
fn few_bits(random: &mut SplitMix, count: usize) -> Vec<f32> {
    random.numbers(count).into_iter().map(|number| (number * 128.0).round() / 128.0).collect()
}

fn matrix(numbers: &[f32], rows: usize, columns: usize) -> Matrix {
    let mut buffer = Buffer::zeroed(size_of_val(numbers), "weights").expect("a small buffer");
    let bytes = buffer.bytes_mut().as_chunks_mut().0.iter_mut();
    bytes.zip(numbers).for_each(|(bytes, number)| *bytes = number.to_le_bytes());
    Matrix::new(WeightFormat::F32, rows, columns, Arc::new(buffer))
}
