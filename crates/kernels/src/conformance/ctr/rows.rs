//! Ops that work number by number, or row by row.

use super::case_rows::{CaseOut, CaseRows};
use crate::conformance::{Report, SIZES, SplitMix};
use crate::ctr::activation::CtrActivation;
use crate::ctr::combine::{Combination, CombineArgs};
use crate::ctr::cross_step::CrossStepArgs;
use crate::ctr::repeat::Repeated;
use crate::ctr::scale_shift::ScaleShiftArgs;
use crate::ctr::{activation, arrange, combine, cross_step, repeat, scale_shift, softmax_rows};
use crate::hstu::layer_norm::{self, Affine, AffineRow};
use crate::ops::Ops;

const EPS: f32 = 1e-5;
/// Longer rows than the blocks of a GPU.
const LONG: [usize; 2] = [1000, 3001];

pub(super) const ACTIVATIONS: [CtrActivation; 3] =
    [CtrActivation::Relu, CtrActivation::Sigmoid, CtrActivation::Elu { alpha: 0.7 }];

type CheckOp = fn(&Ops, &mut SplitMix, &mut Report, [usize; 2]);

pub(super) fn check(ops: &Ops, random: &mut SplitMix, report: &mut Report) {
    let checks: [(&'static str, CheckOp); 8] = [
        ("activate_rows", activate_rows),
        ("arrange", arranged),
        ("clear_rows", clear_rows),
        ("combine", combined),
        ("cross_step", crossed),
        ("repeat", repeated),
        ("scale_shift", scaled),
        ("softmax_rows", softmax),
    ];
    for (op, check) in checks {
        for width in SIZES.into_iter().chain(LONG) {
            let rows = 1 + random.below(40);
            if !report.skips(op) {
                check(ops, random, report, [rows, width]);
            }
        }
    }
    for width in SIZES.into_iter().chain(LONG) {
        let rows = 1 + random.below(40);
        if !report.skips("norm_rows") {
            normed(ops, random, report, [rows, width]);
        }
    }
}

fn activate_rows(ops: &Ops, random: &mut SplitMix, report: &mut Report, shape: [usize; 2]) {
    for kind in ACTIVATIONS {
        let numbers = random.numbers(shape[0] * shape[1]).into_iter().map(|x| 6.0 * x).collect();
        let x = CaseRows::of(ops, random, numbers, shape[1]);
        let mut out = CaseOut::of_any_type(ops, random, shape);
        ops.activate_rows(x.view(), kind, out.view_mut());
        let mut want = x.numbers.clone();
        activation::reference::activate(&mut want, kind);
        out.compare(report, "activate_rows", &format!("{kind:?}"), &want);
    }
}

fn arranged(ops: &Ops, random: &mut SplitMix, report: &mut Report, [rows, width]: [usize; 2]) {
    // Rows that are put together, cut, cut in parts that do not fit, and only moved.
    for [from, to] in [[1, rows], [rows, 1], [2 * rows, 3 * rows], [rows, rows]] {
        let count = 6 * rows * width;
        let x = CaseRows::random(ops, random, [from, count / from]);
        let mut out = CaseOut::of_any_type(ops, random, [to, count / to]);
        ops.arrange(x.view(), out.view_mut());
        let mut want = vec![f32::NAN; count];
        arrange::reference::arrange(x.rows(), &mut want);
        out.compare(report, "arrange", &format!("from {from} rows"), &want);
    }
}

fn clear_rows(ops: &Ops, random: &mut SplitMix, report: &mut Report, shape: [usize; 2]) {
    let mut out = CaseOut::new(ops, random, shape);
    ops.clear_rows(out.view_mut());
    out.compare(report, "clear_rows", "", &vec![0.0; shape[0] * shape[1]]);
}

fn combined(ops: &Ops, random: &mut SplitMix, report: &mut Report, shape: [usize; 2]) {
    for kind in [Combination::Add, Combination::Subtract, Combination::Multiply] {
        let count = 2 + random.below(4);
        let inputs: Vec<_> = (0..count).map(|_| CaseRows::random(ops, random, shape)).collect();
        let views: Vec<_> = inputs.iter().map(CaseRows::view).collect();
        let activation = ACTIVATIONS.get(random.below(5)).copied();
        let mut out = CaseOut::of_any_type(ops, random, shape);
        ops.combine(&CombineArgs { kind, inputs: &views, activation }, out.view_mut());
        let mut want = inputs[0].numbers.clone();
        for input in &inputs[1..] {
            combine::reference::combine(kind, &input.numbers, &mut want);
        }
        if let Some(kind) = activation {
            activation::reference::activate(&mut want, kind);
        }
        out.compare(report, "combine", &format!("{count} inputs, {kind:?}, {activation:?}"), &want);
    }
}

fn crossed(ops: &Ops, random: &mut SplitMix, report: &mut Report, shape: [usize; 2]) {
    let inputs = [(); 3].map(|()| CaseRows::random(ops, random, shape));
    let [first, product, x] = inputs.each_ref().map(CaseRows::view);
    let mut out = CaseOut::new(ops, random, shape);
    ops.cross_step(&CrossStepArgs { first, product, x }, out.view_mut());
    let mut want = vec![f32::NAN; shape[0] * shape[1]];
    let [first, product, x] = inputs.each_ref().map(|input| input.numbers.as_slice());
    cross_step::reference::cross_step(first, product, x, &mut want);
    out.compare(report, "cross_step", "", &want);
}

fn repeated(ops: &Ops, random: &mut SplitMix, report: &mut Report, [rows, width]: [usize; 2]) {
    let (x, factor) = (CaseRows::random(ops, random, [rows, width]), 1 + random.below(7));
    for what in [Repeated::Numbers, Repeated::Rows] {
        let mut want = vec![f32::NAN; factor * rows * width];
        let shape = match what {
            Repeated::Numbers => {
                repeat::reference::numbers(&x.numbers, factor, &mut want);
                [rows, factor * width]
            }
            Repeated::Rows => {
                let repeated = x.rows().flat_map(|row| std::iter::repeat_n(row, factor));
                arrange::reference::arrange(repeated, &mut want);
                [factor * rows, width]
            }
        };
        let mut out = CaseOut::new(ops, random, shape);
        ops.repeat(x.view(), what, out.view_mut());
        out.compare(report, "repeat", &format!("{what:?}"), &want);
    }
}

fn scaled(ops: &Ops, random: &mut SplitMix, report: &mut Report, shape: [usize; 2]) {
    let x = CaseRows::random(ops, random, shape);
    let host = [(); 2].map(|()| random.numbers(shape[1]));
    let [scale, shift] =
        host.each_ref().map(|values| ops.place_vector(values).expect("a small vector"));
    let mut out = CaseOut::new(ops, random, shape);
    let args = ScaleShiftArgs { x: x.view(), scale: &scale, shift: &shift };
    ops.scale_shift(&args, out.view_mut());
    let mut want = vec![f32::NAN; shape[0] * shape[1]];
    for (x, want) in x.rows().zip(want.chunks_exact_mut(shape[1])) {
        scale_shift::reference::scale_shift(x, &host[0], &host[1], want);
    }
    out.compare(report, "scale_shift", "", &want);
}

fn softmax(ops: &Ops, random: &mut SplitMix, report: &mut Report, shape: [usize; 2]) {
    let numbers = random.numbers(shape[0] * shape[1]).into_iter().map(|x| 20.0 * x).collect();
    let x = CaseRows::of(ops, random, numbers, shape[1]);
    let mut out = CaseOut::of_any_type(ops, random, shape);
    ops.softmax_rows(x.view(), out.view_mut());
    let mut want = x.numbers;
    for want in want.chunks_exact_mut(shape[1]) {
        softmax_rows::reference::softmax(want, 0.0);
    }
    out.compare(report, "softmax_rows", "", &want);
}

fn normed(ops: &Ops, random: &mut SplitMix, report: &mut Report, shape: [usize; 2]) {
    let x = CaseRows::random(ops, random, shape);
    let host = [(); 2].map(|()| random.numbers(shape[1]));
    let [weight, bias] =
        host.each_ref().map(|values| ops.place_vector(values).expect("a small vector"));
    let mut out = CaseOut::new(ops, random, shape);
    let affine = Affine { weight: &weight, bias: &bias };
    ops.norm_rows(x.view(), affine, EPS, out.view_mut());
    let mut want = vec![f32::NAN; shape[0] * shape[1]];
    let affine = AffineRow { weight: &host[0], bias: &host[1] };
    for (x, want) in x.rows().zip(want.chunks_exact_mut(shape[1])) {
        layer_norm::reference::norm(x, Some(affine), EPS, want);
    }
    out.compare(report, "norm_rows", "", &want);
}
