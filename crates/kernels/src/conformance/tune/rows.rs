//! Ops of tuning that go row by row, and their gradients.

use terrace_device::{DType, Device, View, ViewMut};

use super::{Both, TOLERANCE};
use crate::conformance::numbers::rounded;
use crate::conformance::placed::Placed;
use crate::conformance::report::Limit;
use crate::conformance::{Report, SIZES, SplitMix};
use crate::elementwise::dropout::Dropout;
use crate::elementwise::embed;
use crate::elementwise::gate::{Activation, GateGradients};
use crate::elementwise::rms_norm::RmsNormGradients;
use crate::elementwise::rope::{RopeAngles, RopeStyle, reference};

pub(super) fn check(both: &Both<'_>, random: &mut SplitMix, report: &mut Report) {
    for dim in SIZES {
        for heads in [1, 3] {
            let tokens = 1 + random.below(40);
            normed(both, random, report, [tokens, heads, dim]);
        }
    }
    // Longer than is kept of a row, and more rows than there are at once.
    for shape in [[5, 1, 576], [3, 2, 1001], [2, 1, 9000], [9001, 1, 16], [1100, 1, 520]] {
        normed(both, random, report, shape);
    }
    for check in [scaled, added, dropped, cleared] {
        SIZES.into_iter().chain([1100]).for_each(|dim| check(both, random, report, dim));
    }
    for dim in SIZES.into_iter().chain([1100]) {
        for kind in [Activation::Silu, Activation::GeluTanh] {
            gated(both, random, report, dim, kind);
        }
    }
    for check in [rotated, rotated_back] {
        for pairs in SIZES {
            for style in [RopeStyle::Halves, RopeStyle::Interleaved] {
                check(both, random, report, pairs, style);
            }
        }
    }
    for hidden in SIZES.into_iter().chain([300, 513]) {
        embedded(both, random, report, hidden);
    }
}

/// Rows of these numbers, with some columns behind them that belong to nobody.
struct Rows {
    placed: Placed,
    dim: usize,
    behind: usize,
}

impl Rows {
    fn new(device: &Device, dtype: DType, numbers: &[f32], dim: usize, behind: usize) -> Self {
        let mut wide = Vec::new();
        for row in numbers.chunks_exact(dim) {
            wide.extend_from_slice(row);
            wide.extend(std::iter::repeat_n(f32::NAN, behind));
        }
        let shape = [numbers.len() / dim, dim + behind];
        Rows { placed: Placed::numbers(device, dtype, &wide, shape), dim, behind }
    }

    fn view(&self) -> View<'_> {
        self.placed.view().columns(0, self.dim)
    }

    fn view_mut(&mut self) -> ViewMut<'_> {
        let [rows, _] = self.placed.view_mut().split_columns([self.dim, self.behind]);
        rows
    }

    /// The rows' numbers, and whether nobody wrote behind them.
    fn to_numbers(&self) -> Vec<f32> {
        let wide = self.placed.to_numbers();
        let rows = wide.chunks_exact(self.dim + self.behind);
        let is_left_alone = rows.clone().all(|row| row[self.dim..].iter().all(|x| x.is_nan()));
        let numbers = rows.flat_map(|row| row[..self.dim].iter());
        numbers.map(|x| if is_left_alone { *x } else { f32::NAN }).collect()
    }
}

/// Columns behind a row: none, such that vectors stay aligned, or such that they do not.
fn some_behind(random: &mut SplitMix) -> usize {
    [0, 8, 3][random.below(3)]
}

fn normed(both: &Both<'_>, random: &mut SplitMix, report: &mut Report, shape: [usize; 3]) {
    if report.skips("norm_grad") {
        return;
    }
    let [tokens, heads, dim] = shape;
    let (width, count, behind) = (heads * dim, tokens * heads * dim, some_behind(random));
    let (x, d_out, before) = (random.numbers(count), random.numbers(count), random.numbers(count));
    let (weight, weight_before) = (random.numbers(dim), random.numbers(dim));
    let is_trained = random.below(4) > 0;
    let names = ["d_x", "d_weight"];
    let case = format!("{shape:?}, {behind} behind");
    both.compare(report, "norm_grad", &case, &names, TOLERANCE, |ops| {
        let device = ops.device();
        let [x, d_out, mut d_x] = [&x, &d_out, &before]
            .map(|numbers| Rows::new(&device, DType::F32, numbers, width, behind));
        let weight = Placed::of(&device, &weight, [dim]);
        let mut d_weight = Placed::of(&device, &weight_before, [dim]);
        ops.rms_norm_gradients(RmsNormGradients {
            x: x.view().split_heads(heads),
            weight: weight.view(),
            eps: 1e-5,
            d_out: d_out.view().split_heads(heads),
            d_x: d_x.view_mut().split_heads(heads),
            d_weight: is_trained.then(|| d_weight.view_mut()),
        });
        vec![d_x.to_numbers(), d_weight.to_numbers()]
    });
}

fn scaled(both: &Both<'_>, random: &mut SplitMix, report: &mut Report, dim: usize) {
    if report.skips("scale_columns") {
        return;
    }
    let (rows, behind, device) = (1 + random.below(300), some_behind(random), &both.device);
    let (x, d_out) = (random.numbers(rows * dim), random.numbers(rows * dim));
    let (factors, added) = (random.numbers(dim), random.numbers(dim));
    let placed = |numbers: &[f32]| Rows::new(device, DType::F32, numbers, dim, behind);
    let [x_placed, d_out_placed] = [placed(&x), placed(&d_out)];
    let [factors_placed, added_placed] =
        [&factors, &added].map(|numbers| Placed::of(device, numbers, [dim]));
    let case = |name: &str| format!("{name} {rows}x{dim}, {behind} behind");
    for dtype in [DType::F32, both.act] {
        let mut out = Rows::new(device, dtype, &vec![f32::NAN; rows * dim], dim, behind);
        both.ops.scale_columns(x_placed.view(), factors_placed.view(), out.view_mut());
        let scaled = out.to_numbers();
        both.ops.add_to_columns(out.view_mut(), added_placed.view());
        let want: Vec<f32> = (0..rows * dim).map(|i| x[i] * factors[i % dim]).collect();
        let limit = Limit::of(dtype, TOLERANCE);
        report.compare_each("scale_columns", case(dtype.name()), limit, &scaled, &want);
        // Of what was rounded, so that one rounding is left.
        let want: Vec<f32> = (0..rows * dim).map(|i| scaled[i] + added[i % dim]).collect();
        let case = case(&format!("sum, {}", dtype.name()));
        report.compare_each("scale_columns", case, limit, &out.to_numbers(), &want);
    }
    let mut sums = Placed::of(device, &vec![0.5; dim], [dim]);
    both.ops.factor_gradients(x_placed.view(), d_out_placed.view(), sums.view_mut());
    let sum = |column: usize| -> f64 {
        let rows = (0..rows).map(|row| row * dim + column);
        0.5 + rows.map(|i| f64::from(x[i]) * f64::from(d_out[i])).sum::<f64>()
    };
    let want: Vec<f32> = (0..dim).map(|column| sum(column) as f32).collect();
    report.compare("scale_columns", case("sums of"), TOLERANCE, &sums.to_numbers(), &want);
}

fn added(both: &Both<'_>, random: &mut SplitMix, report: &mut Report, dim: usize) {
    if report.skips("add") {
        return;
    }
    let (rows, behind) = (1 + random.below(40), some_behind(random));
    let delta = random.numbers(rows * dim);
    for dtype in [DType::F32, both.act] {
        let before = rounded(random.numbers(rows * dim), dtype);
        let mut sum = Rows::new(&both.device, dtype, &before, dim, behind);
        let placed = Rows::new(&both.device, DType::F32, &delta, dim, behind);
        both.ops.add(sum.view_mut(), placed.view());
        let want = before.iter().zip(&delta).map(|(sum, delta)| sum + delta).collect();
        let case = format!("{} {rows}x{dim}, {behind} behind", dtype.name());
        report.compare_exactly("add", case, &sum.to_numbers(), &rounded(want, dtype));
    }
}

/// The same numbers are left out on every device.
fn dropped(both: &Both<'_>, random: &mut SplitMix, report: &mut Report, dim: usize) {
    if report.skips("drop_out") {
        return;
    }
    let (row_tokens, behind) = (1 + random.below(9), some_behind(random));
    let rows = row_tokens * (1 + random.below(4));
    let share = [0.0, 0.1, 0.5, 1.0][random.below(4)];
    let dropout =
        Dropout { seed: random.bits(), share, row_tokens, position: random.below(1 << 20) };
    for dtype in [DType::F32, both.act] {
        let x = rounded(random.numbers(rows * dim), dtype);
        let placed = Rows::new(&both.device, dtype, &x, dim, behind);
        let mut out = Rows::new(&both.device, dtype, &vec![f32::NAN; rows * dim], dim, behind);
        both.ops.drop_out(placed.view(), dropout, out.view_mut());
        let (mut want, shape) = (vec![f32::NAN; rows * dim], [rows, dim]);
        both.plain.drop_out(View::of(&x, shape), dropout, ViewMut::of(&mut want, shape));
        let case = format!("{} {rows}x{dim}, {dropout:?}", dtype.name());
        report.compare_exactly("drop_out", case, &out.to_numbers(), &rounded(want, dtype));
    }
}

/// Some rows of a matrix, whose neighbours stay.
fn cleared(both: &Both<'_>, random: &mut SplitMix, report: &mut Report, dim: usize) {
    if report.skips("clear") {
        return;
    }
    let rows = 3 + random.below(300);
    let mut x = random.numbers(rows * dim);
    let mut placed = Placed::of(&both.device, &x, [rows, dim]);
    both.ops.clear(placed.view_mut().rows(1..rows - 1));
    x[dim..(rows - 1) * dim].fill(0.0);
    report.compare_exactly("clear", format!("{rows}x{dim}"), &placed.to_numbers(), &x);
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
    let (tokens, behind) = (1 + random.below(20), some_behind(random));
    let numbers = |random: &mut SplitMix| -> Vec<f32> {
        random.numbers(tokens * dim).into_iter().map(|x| 6.0 * x).collect()
    };
    let [gate, up] = [(); 2].map(|()| rounded(numbers(random), both.act));
    let (d_out, nothing) = (numbers(random), vec![f32::NAN; tokens * dim]);
    let case = format!("{kind:?} {tokens}x{dim}, {behind} behind");
    both.compare(report, "gate_grad", &case, &["gate", "up"], TOLERANCE, |ops| {
        let (device, act) = (ops.device(), ops.activation());
        let [gate, up] = [&gate, &up].map(|x| Rows::new(&device, act, x, dim, behind));
        let [d_out, mut d_gate, mut d_up] = [&d_out, &nothing, &nothing]
            .map(|numbers| Rows::new(&device, DType::F32, numbers, dim, behind));
        ops.gate_gradients(GateGradients {
            gate: gate.view(),
            up: up.view(),
            kind,
            d_out: d_out.view(),
            d_gate: d_gate.view_mut(),
            d_up: d_up.view_mut(),
        });
        vec![d_gate.to_numbers(), d_up.to_numbers()]
    });
}

/// The angles of a case, with numbers behind the rotated ones of each head.
struct Rotation {
    shape: [usize; 3],
    pairs: usize,
    cos: Placed,
    sin: Placed,
}

impl Rotation {
    fn new(both: &Both<'_>, random: &mut SplitMix, pairs: usize) -> Self {
        let shape =
            [1 + random.below(9), 1 + random.below(4), 2 * pairs + [0, 8, 3][random.below(3)]];
        let angles: Vec<f32> = random.numbers(shape[0] * pairs).iter().map(|x| 40.0 * x).collect();
        let (cos, sin): (Vec<f32>, Vec<f32>) = angles.iter().map(|x| (x.cos(), x.sin())).unzip();
        let [cos, sin] =
            [cos, sin].map(|numbers| Placed::of(&both.device, &numbers, [shape[0], pairs]));
        Rotation { shape, pairs, cos, sin }
    }

    fn angles(&self) -> RopeAngles<'_> {
        RopeAngles { cos: self.cos.view(), sin: self.sin.view() }
    }

    fn count(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Activations, against the rotation of one head after the other.
fn rotated(
    both: &Both<'_>,
    random: &mut SplitMix,
    report: &mut Report,
    pairs: usize,
    style: RopeStyle,
) {
    if report.skips("rope") {
        return;
    }
    let rotation = Rotation::new(both, random, pairs);
    let [_, heads, dim] = rotation.shape;
    let mut want = rounded(random.numbers(rotation.count()), both.act);
    let mut x = Placed::numbers(&both.device, both.act, &want, rotation.shape);
    both.ops.rope(x.view_mut(), rotation.angles(), style);
    let (cos, sin) = (rotation.cos.to_numbers(), rotation.sin.to_numbers());
    for (i, head) in want.chunks_exact_mut(dim).enumerate() {
        let angles = i / heads * pairs..(i / heads + 1) * pairs;
        let (cos, sin) = (&cos[angles.clone()], &sin[angles]);
        match style {
            RopeStyle::Halves => reference::rotate_halves(head, cos, sin),
            RopeStyle::Interleaved => reference::rotate_interleaved(head, cos, sin),
        }
    }
    let case = format!("{style:?} {} {:?}", both.act.name(), rotation.shape);
    report.compare_exactly("rope", case, &x.to_numbers(), &rounded(want, both.act));
}

/// What is rotated and comes back is what it was, for angles without a scale.
fn rotated_back(
    both: &Both<'_>,
    random: &mut SplitMix,
    report: &mut Report,
    pairs: usize,
    style: RopeStyle,
) {
    if report.skips("rope_grad") {
        return;
    }
    let rotation = Rotation::new(both, random, pairs);
    let x = random.numbers(rotation.count());
    let mut placed = Placed::of(&both.device, &x, rotation.shape);
    both.ops.rope(placed.view_mut(), rotation.angles(), style);
    both.ops.rope_gradient(placed.view_mut(), rotation.angles(), style);
    let case = format!("{style:?} {:?}, {} pairs", rotation.shape, rotation.pairs);
    report.compare("rope_grad", case, TOLERANCE, &placed.to_numbers(), &x);
}

fn embedded(both: &Both<'_>, random: &mut SplitMix, report: &mut Report, hidden: usize) {
    if report.skips("embed_grad") {
        return;
    }
    let (tokens, vocab, behind) = (1 + random.below(50), 1 + random.below(20), some_behind(random));
    let ids: Vec<i32> = (0..tokens).map(|_| random.below(vocab) as i32).collect();
    let (d_out, mut want) = (random.numbers(tokens * hidden), random.numbers(vocab * hidden));
    let placed_ids = Placed::of(&both.device, &ids, [tokens]);
    let placed = Rows::new(&both.device, DType::F32, &d_out, hidden, behind);
    let mut d_table = Placed::of(&both.device, &want, [vocab, hidden]);
    both.ops.embed_gradient(placed_ids.view(), placed.view(), d_table.view_mut());
    embed::reference::gradient(&ids, &d_out, hidden, &mut want);
    let (case, got) = (format!("{tokens} of {hidden}"), d_table.to_numbers());
    match both.device {
        Device::Cpu => report.compare_exactly("embed_grad", case, &got, &want),
        // Tokens with the same id add in any order.
        Device::Cuda(_) => report.compare("embed_grad", case, TOLERANCE, &got, &want),
    }
}
