//! Branches of low rank beside products that are served.

use terrace_device::DType;

use super::super::SIZES;
use super::super::placed::Placed;
use super::super::products::{matrix, unpacked};
use super::{Report, SplitMix};
use crate::linear::lora::{BranchArgs, BranchForm, LoraBranch};
use crate::linear::weight_format::WeightFormat;
use crate::ops::Ops;

/// f32 sums of up to 127 terms, and of up to 9 of those, against f64.
const TOLERANCE: f64 = 5e-6;
/// One rounding of the result.
const TOLERANCE_BF16: f64 = 1.0 / 128.0;
const TOLERANCE_F16: f64 = 1.0 / 1024.0;
const EPS: f32 = 1e-8;
const SCALE: f32 = 0.7;

#[derive(Clone, Copy, Debug)]
enum Form {
    Added,
    Normed,
    Scaled,
    ScaledWithBias,
}

pub(super) fn check(ops: &Ops, random: &mut SplitMix, report: &mut Report) {
    for form in [Form::Added, Form::Normed, Form::Scaled, Form::ScaledWithBias] {
        for columns in SIZES {
            let (rank, tokens) = (1 + random.below(9), 1 + random.below(7));
            let rows = 1 + random.below(60);
            branch(ops, random, report, form, [tokens, rows, columns, rank]);
        }
        // Several tasks for each token, and several blocks of tokens.
        branch(ops, random, report, form, [3, 1100, 16, 8]);
        branch(ops, random, report, form, [19, 300, 40, 17]);
    }
}

/// Into columns of a wider output, whose others must stay as they are.
fn branch(ops: &Ops, random: &mut SplitMix, report: &mut Report, form: Form, shape: [usize; 4]) {
    for out_type in [ops.activation(), DType::F32] {
        if !report.skips("branch") {
            branch_into(ops, random, report, (form, out_type), shape);
        }
        if ops.activation() == DType::F32 {
            return;
        }
    }
}

fn branch_into(
    ops: &Ops,
    random: &mut SplitMix,
    report: &mut Report,
    (form, out_type): (Form, DType),
    [tokens, rows, columns, rank]: [usize; 4],
) {
    let branches = ops.branches().expect("kernels that are built in");
    let (device, act) = (ops.device(), ops.activation());
    let [a, b] = [(rank, columns), (rows, rank)]
        .map(|(rows, columns)| matrix(random, WeightFormat::F32, rows, columns));
    let [a_rows, b_rows] = [unpacked(&a), unpacked(&b)];
    let [a, b] = [a, b].map(|matrix| branches.place(matrix).expect("a small matrix"));
    let (numbers, bias) = (random.numbers(rows), random.numbers(rows));
    let [placed, placed_bias] =
        [&numbers, &bias].map(|values| ops.place_vector(values).expect("a small vector"));
    let bias = matches!(form, Form::ScaledWithBias).then_some(bias);
    let placed_numbers = |numbers: &[f32], dtype, shape: [usize; 2]| {
        let placed = Placed::numbers(&device, dtype, numbers, shape);
        let rounded = placed.to_numbers();
        (placed, rounded)
    };
    let (x, x_numbers) = placed_numbers(&random.numbers(tokens * columns), act, [tokens, columns]);
    let numbers_before = random.numbers(tokens * (rows + 5));
    let (mut got, before) = placed_numbers(&numbers_before, out_type, [tokens, rows + 5]);
    let mut inner = Placed::poisoned(&device, DType::F32, [tokens, rank]);
    let [_, out, _] = got.view_mut().split_columns([2, rows, 3]);
    branches.apply(BranchArgs {
        x: x.view(),
        branch: LoraBranch { a: &a, b: &b, scale: SCALE },
        form: match form {
            Form::Added => BranchForm::Added,
            Form::Normed => BranchForm::Normed { weight: &placed, eps: EPS },
            Form::Scaled | Form::ScaledWithBias => {
                BranchForm::Scaled { factors: &placed, bias: bias.as_ref().map(|_| &placed_bias) }
            }
        },
        inner: inner.view_mut(),
        out,
    });
    let mut want = before;
    for (x, out) in x_numbers.chunks_exact(columns).zip(want.chunks_exact_mut(rows + 5)) {
        let inner: Vec<f64> = a_rows.iter().map(|a| dot(x, a)).collect();
        let added: Vec<f64> = b_rows.iter().map(|b| f64::from(SCALE) * dot(&inner, b)).collect();
        let squares: f64 = added.iter().map(|added| added * added).sum();
        let factor = 1.0 / (squares / rows as f64 + f64::from(EPS)).sqrt();
        for (row, out) in out[2..2 + rows].iter_mut().enumerate() {
            let (product, number) = (f64::from(*out), f64::from(numbers[row]));
            let bias = bias.as_ref().map_or(0.0, |bias| f64::from(bias[row]));
            *out = match form {
                Form::Added => product + added[row],
                Form::Normed => product + number * added[row] * factor,
                Form::Scaled | Form::ScaledWithBias => (product + added[row]) * number + bias,
            } as f32;
        }
    }
    let case = format!("{form:?} {rows} x {columns}, rank {rank}, {tokens} tokens");
    let tolerance = match out_type {
        DType::Bf16 => TOLERANCE_BF16,
        DType::F16 => TOLERANCE_F16,
        _ => TOLERANCE,
    };
    report.compare("branch", case, tolerance, &got.to_numbers(), &want);
}

fn dot<T: Copy + Into<f64>>(a: &[T], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (*a).into() * f64::from(*b)).sum()
}
