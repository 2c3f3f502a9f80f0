//! Ops that read weights: unpack, embed, project.

use std::sync::Arc;

use terrace_device::{Buffer, View, ViewMut};

use super::{Report, SIZES, SplitMix};
use crate::cpu_ops::CpuOps;
use crate::elementwise::embed;
use crate::linear::matmul::Projection;
use crate::linear::matmul::reference::dot;
use crate::linear::matrix::Matrix;
use crate::linear::unpack::{Unpack, reference};
use crate::linear::weight_format::WeightFormat;

/// f32 sums of up to 1024 terms against exact ones; random signs lose about 1e-7, in any order.
const PRODUCT_TOLERANCE: f64 = 2e-6;

pub(super) fn check(ops: &CpuOps, random: &mut SplitMix, report: &mut Report) {
    for format in WeightFormat::ALL {
        for blocks in SIZES {
            unpack(ops, random, report, format, blocks * format.block_weights());
        }
    }
    for format in WeightFormat::ALL {
        embed(ops, random, report, format);
    }
    for format in WeightFormat::ALL {
        for tokens in [1, 2, 3, 4, 5, 6, 7, 13, 33] {
            project(ops, random, report, format, tokens, format.block_weights() * 3);
        }
    }
    for columns in SIZES.into_iter().chain([576, 1000]) {
        let tokens = 1 + random.below(12);
        project(ops, random, report, WeightFormat::F32, tokens, columns);
        project(ops, random, report, WeightFormat::Bf16, tokens, columns);
    }
}

fn unpack(
    ops: &CpuOps,
    random: &mut SplitMix,
    report: &mut Report,
    format: WeightFormat,
    count: usize,
) {
    if report.skips("unpack") {
        return;
    }
    let bytes = random.weights(format, count);
    let (mut got, mut want) = (vec![f32::NAN; count], vec![f32::NAN; count]);
    ops.ctx.simd.run(Unpack { format, bytes: &bytes, out: &mut got });
    reference::unpack(format, &bytes, &mut want);
    report.compare_exactly("unpack", format!("{} {count}", format.name()), &got, &want);
}

fn embed(ops: &CpuOps, random: &mut SplitMix, report: &mut Report, format: WeightFormat) {
    if report.skips("embed") {
        return;
    }
    let (vocab, hidden, tokens) = (17, 2 * format.block_weights(), 9);
    let table = matrix(random, format, vocab, hidden);
    let ids: Vec<i32> = (0..tokens).map(|_| random.below(vocab) as i32).collect();
    let mut got = vec![f32::NAN; tokens * hidden];
    embed::embed(
        &ops.ctx,
        View::of(&ids, [tokens]),
        &table,
        ViewMut::of(&mut got, [tokens, hidden]),
    );
    let rows = unpacked(&table);
    let want: Vec<f32> = ids.iter().flat_map(|&id| rows[id as usize].clone()).collect();
    report.compare_exactly("embed", format.name().to_string(), &got, &want);
}

/// Two parts, one with a bias, into neighbouring columns of one output, from strided inputs.
fn project(
    ops: &CpuOps,
    random: &mut SplitMix,
    report: &mut Report,
    format: WeightFormat,
    tokens: usize,
    columns: usize,
) {
    if report.skips("project") {
        return;
    }
    let rows = [1 + random.below(40), 1 + random.below(40)];
    let weights = rows.map(|rows| matrix(random, format, rows, columns));
    let bias = random.numbers(rows[1]);
    let stride = columns + 3;
    let x = random.numbers(tokens * stride);
    let x_view = View::of(&x, [tokens, stride]).columns(2, columns);
    let width = rows[0] + rows[1];
    let mut got = vec![f32::NAN; tokens * width];
    let [first, second] = ViewMut::of(&mut got, [tokens, width]).split_columns(rows);
    let bias_view = View::of(&bias, [rows[1]]);
    ops.project(
        x_view,
        &mut [
            Projection { weight: &weights[0], bias: None, out: first },
            Projection { weight: &weights[1], bias: Some(bias_view), out: second },
        ],
    );
    let [first, second] = [unpacked(&weights[0]), unpacked(&weights[1])];
    let mut want = Vec::new();
    for token in 0..tokens {
        let x = x_view.row::<f32>(token);
        want.extend(first.iter().map(|row| dot(x, row)));
        want.extend(second.iter().zip(&bias).map(|(row, bias)| dot(x, row) + bias));
    }
    let case = format!("{} {tokens} tokens, {columns} columns, {rows:?} rows", format.name());
    report.compare("project", case, PRODUCT_TOLERANCE, &got, &want);
}

/// Of random weights.
pub fn matrix(random: &mut SplitMix, format: WeightFormat, rows: usize, columns: usize) -> Matrix {
    let bytes = random.weights(format, rows * columns);
    let mut buffer = Buffer::zeroed(bytes.len(), "conformance weights").expect("a small buffer");
    buffer.bytes_mut().copy_from_slice(&bytes);
    Matrix::new(format, rows, columns, Arc::new(buffer))
}

pub(super) fn unpacked(matrix: &Matrix) -> Vec<Vec<f32>> {
    let rows = (0..matrix.rows()).map(|row| {
        let mut weights = vec![f32::NAN; matrix.columns()];
        reference::unpack(matrix.format(), matrix.row(row), &mut weights);
        weights
    });
    rows.collect()
}
