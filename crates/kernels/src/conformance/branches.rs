//! Branches of low rank beside products that are served.

use terrace_device::{View, ViewMut};

use super::products::{matrix, unpacked};
use super::{Report, SIZES, SplitMix};
use crate::branch_ops::BranchOps;
use crate::cpu_ops::CpuOps;
use crate::linear::lora::{BranchArgs, BranchForm, LoraBranch};
use crate::linear::vector::Vector;
use crate::linear::weight_format::WeightFormat;

/// f32 sums of up to 127 terms, and of up to 9 of those, against f64.
const TOLERANCE: f64 = 5e-6;
const EPS: f32 = 1e-8;
const SCALE: f32 = 0.7;

#[derive(Clone, Copy, Debug)]
enum Form {
    Added,
    Normed,
    Scaled,
    ScaledWithBias,
}

pub(super) fn check(ops: &CpuOps, random: &mut SplitMix, report: &mut Report) {
    for form in [Form::Added, Form::Normed, Form::Scaled, Form::ScaledWithBias] {
        for columns in SIZES {
            let (rank, tokens) = (1 + random.below(9), 1 + random.below(7));
            let rows = 1 + random.below(60);
            branch(ops, random, report, form, [tokens, rows, columns, rank]);
        }
        // Several tasks for each token.
        branch(ops, random, report, form, [3, 1100, 16, 8]);
    }
}

/// Into columns of a wider output, whose others must stay as they are.
fn branch(
    ops: &CpuOps,
    random: &mut SplitMix,
    report: &mut Report,
    form: Form,
    [tokens, rows, columns, rank]: [usize; 4],
) {
    if report.skips("branch") {
        return;
    }
    let branches = BranchOps { cpu: ops };
    let [a, b] = [(rank, columns), (rows, rank)]
        .map(|(rows, columns)| matrix(random, WeightFormat::F32, rows, columns));
    let [a_rows, b_rows] = [unpacked(&a), unpacked(&b)];
    let (a, b) = (branches.place(a), branches.place(b));
    let (numbers, bias) = (random.numbers(rows), random.numbers(rows));
    let [placed, placed_bias] =
        [&numbers, &bias].map(|values| Vector::on_cpu(values).expect("a small vector"));
    let bias = matches!(form, Form::ScaledWithBias).then_some(bias);
    let x = random.numbers(tokens * columns);
    let before = random.numbers(tokens * (rows + 5));
    let mut got = before.clone();
    let mut inner = vec![f32::NAN; tokens * rank];
    let all = ViewMut::of(&mut got, [tokens, rows + 5]);
    let [_, out, _] = all.split_columns([2, rows, 3]);
    branches.apply(BranchArgs {
        x: View::of(&x, [tokens, columns]),
        branch: LoraBranch { a: &a, b: &b, scale: SCALE },
        form: match form {
            Form::Added => BranchForm::Added,
            Form::Normed => BranchForm::Normed { weight: &placed, eps: EPS },
            Form::Scaled | Form::ScaledWithBias => {
                BranchForm::Scaled { factors: &placed, bias: bias.as_ref().map(|_| &placed_bias) }
            }
        },
        inner: ViewMut::of(&mut inner, [tokens, rank]),
        out,
    });
    let mut want = before;
    for (x, out) in x.chunks_exact(columns).zip(want.chunks_exact_mut(rows + 5)) {
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
    report.compare("branch", case, TOLERANCE, &got, &want);
}

fn dot<T: Copy + Into<f64>>(a: &[T], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (*a).into() * f64::from(*b)).sum()
}
