//! Norms of the stream, and of what attention gives, with gates.

use terrace_device::DType;

use crate::conformance::numbers::rounded;
use crate::conformance::placed::Placed;
use crate::conformance::{Report, SIZES, SplitMix};
use crate::hstu::gated_norm::{self, GatedForm, GatedNormArgs, NormExtent, NormRule, Rows};
use crate::hstu::layer_norm::{self, Affine, AffineRow};
use crate::linear::vector::Vector;
use crate::ops::Ops;

const EPS: f32 = 1e-5;

/// Longer rows than a thread keeps.
const LONG: [usize; 4] = [576, 4096, 9001, 20_000];

pub(super) fn check(ops: &Ops, random: &mut SplitMix, report: &mut Report) {
    for dim in SIZES.into_iter().chain(LONG) {
        layer_norm(ops, random, report, dim);
    }
    for dim in SIZES.into_iter().chain(LONG) {
        add_layer_norm(ops, random, report, dim);
    }
    for dim in SIZES.into_iter().chain(LONG) {
        add_rows(ops, random, report, dim);
    }
    let forms = [GatedForm::Gated, GatedForm::WithAttention, GatedForm::WithNormed];
    for dim in SIZES.into_iter().chain([256, 512, 1024, 9001]) {
        for form in forms {
            let extent = match random.below(2) {
                0 => NormExtent::AllHeads,
                _ => NormExtent::EachHead { heads: 1 + random.below(4) },
            };
            gated_norm(ops, random, report, dim, form, extent);
        }
    }
}

/// Numbers that a mean is taken from cancel, so errors are relative to the largest.
pub(super) fn limit(act: DType) -> f64 {
    match act {
        DType::F32 => 4e-6,
        DType::F16 => 1.0 / 1024.0,
        _ => 1.0 / 128.0,
    }
}

/// Weights, on the host and where the ops compute.
struct Weights {
    host: [Vec<f32>; 2],
    placed: [Vector; 2],
}

impl Weights {
    /// In two of three cases.
    fn random(ops: &Ops, random: &mut SplitMix, count: usize) -> Option<Weights> {
        (0 < random.below(3)).then(|| {
            let host = [random.numbers(count), random.numbers(count)];
            let place = |values: &Vec<f32>| ops.place_vector(values).expect("a small vector");
            let placed = host.each_ref().map(place);
            Weights { host, placed }
        })
    }

    fn affine(&self) -> Affine<'_> {
        Affine { weight: &self.placed[0], bias: &self.placed[1] }
    }

    fn row(&self) -> AffineRow<'_> {
        AffineRow { weight: &self.host[0], bias: &self.host[1] }
    }
}

/// A matrix with some columns behind those that are meant, and the meant ones.
struct Padded {
    width: usize,
    stride: usize,
    numbers: Vec<f32>,
}

impl Padded {
    fn new(random: &mut SplitMix, rows: usize, width: usize) -> Self {
        let stride = width + [0, 8, 3][random.below(3)];
        let numbers = random.numbers(rows * stride);
        Padded { width, stride, numbers }
    }

    fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.numbers.chunks_exact(self.stride).map(|row| &row[..self.width])
    }
}

fn layer_norm(ops: &Ops, random: &mut SplitMix, report: &mut Report, dim: usize) {
    if report.skips("layer_norm") {
        return;
    }
    let (device, act, rows) = (ops.device(), ops.activation(), 1 + random.below(20));
    let x = Padded::new(random, rows, dim);
    let weights = Weights::random(ops, random, dim);
    let placed = Placed::of(&device, &x.numbers, [rows, x.stride]);
    let mut out = Placed::poisoned(&device, act, [rows, dim]);
    let affine = weights.as_ref().map(Weights::affine);
    ops.layer_norm(placed.view().columns(0, dim), affine, EPS, out.view_mut());
    let mut want = vec![f32::NAN; rows * dim];
    let affine = weights.as_ref().map(Weights::row);
    for (x, want) in x.rows().zip(want.chunks_exact_mut(dim)) {
        layer_norm::reference::norm(x, affine, EPS, want);
    }
    let case = format!("{} {rows}x{dim} of {}", act.name(), x.stride);
    report.compare("layer_norm", case, limit(act), &out.to_numbers(), &want);
}

fn add_layer_norm(ops: &Ops, random: &mut SplitMix, report: &mut Report, dim: usize) {
    if report.skips("add_layer_norm") {
        return;
    }
    let (device, act, rows) = (ops.device(), ops.activation(), 1 + random.below(20));
    let (mut sum, mut delta) = (random.numbers(rows * dim), Padded::new(random, rows, dim));
    delta.numbers = rounded(delta.numbers, act);
    let weights = Weights::random(ops, random, dim);
    let mut placed = Placed::of(&device, &sum, [rows, dim]);
    let placed_delta = Placed::numbers(&device, act, &delta.numbers, [rows, delta.stride]);
    let mut out = Placed::poisoned(&device, act, [rows, dim]);
    let affine = weights.as_ref().map(Weights::affine);
    let delta_view = placed_delta.view().columns(0, dim);
    ops.add_layer_norm(placed.view_mut(), delta_view, affine, EPS, out.view_mut());
    let mut want = vec![f32::NAN; rows * dim];
    let affine = weights.as_ref().map(Weights::row);
    let sums = sum.chunks_exact_mut(dim).zip(delta.rows());
    for ((sum, delta), want) in sums.zip(want.chunks_exact_mut(dim)) {
        layer_norm::reference::add(sum, delta);
        layer_norm::reference::norm(sum, affine, EPS, want);
    }
    let case = format!("{} {rows}x{dim}", act.name());
    report.compare_exactly("add_layer_norm", format!("sum, {case}"), &placed.to_numbers(), &sum);
    report.compare("add_layer_norm", case, limit(act), &out.to_numbers(), &want);
}

fn add_rows(ops: &Ops, random: &mut SplitMix, report: &mut Report, dim: usize) {
    if report.skips("add_rows") {
        return;
    }
    let (device, act, rows) = (ops.device(), ops.activation(), 1 + random.below(20));
    let (mut sum, mut delta) = (random.numbers(rows * dim), Padded::new(random, rows, dim));
    delta.numbers = rounded(delta.numbers, act);
    let mut placed = Placed::of(&device, &sum, [rows, dim]);
    let placed_delta = Placed::numbers(&device, act, &delta.numbers, [rows, delta.stride]);
    // Every second row of the sum, from the first on.
    let picked: Vec<i32> = (0..rows as i32).step_by(2).collect();
    let placed_rows = Placed::of(&device, &picked, [picked.len()]);
    let picks = random.below(2) == 0;
    let delta_view = placed_delta.view().columns(0, dim);
    let (step, delta_view) = match picks {
        true => (2, delta_view.rows(0..picked.len())),
        false => (1, delta_view),
    };
    ops.add_rows(placed.view_mut(), picks.then(|| placed_rows.view()), delta_view);
    for (sum, delta) in sum.chunks_exact_mut(dim).step_by(step).zip(delta.rows()) {
        layer_norm::reference::add(sum, delta);
    }
    let case = format!("{} {rows}x{dim}, picked {picks}", act.name());
    report.compare_exactly("add_rows", case, &placed.to_numbers(), &sum);
}

/// Both inputs are column blocks of one matrix, as a fused projection leaves them.
fn gated_norm(
    ops: &Ops,
    random: &mut SplitMix,
    report: &mut Report,
    head_dim: usize,
    form: GatedForm,
    extent: NormExtent,
) {
    if report.skips("gated_norm") {
        return;
    }
    let (device, act, rows) = (ops.device(), ops.activation(), 1 + random.below(20));
    let (dim, weight_count) = match extent {
        NormExtent::AllHeads => (head_dim, head_dim),
        NormExtent::EachHead { heads } => (heads * head_dim, heads),
    };
    let mut both = Padded::new(random, rows, 2 * dim);
    both.numbers = rounded(both.numbers.iter().map(|x| 4.0 * x).collect(), act);
    let weights = Weights::random(ops, random, weight_count);
    let placed = Placed::numbers(&device, act, &both.numbers, [rows, both.stride]);
    let width = form.parts() * dim;
    let activates = random.below(2) == 0;
    let picked: Vec<i32> = (0..rows as i32).filter(|row| row % 3 != 1).collect();
    let placed_rows = Placed::of(&device, &picked, [picked.len()]);
    let picks = random.below(3) == 0;
    let args = GatedNormArgs {
        attention: placed.view().columns(dim, dim),
        u: placed.view().columns(0, dim),
        rows: picks.then(|| placed_rows.view()),
        activates,
        affine: weights.as_ref().map(Weights::affine),
        eps: EPS,
        form,
        extent,
    };
    let count = if picks { picked.len() } else { rows };
    let mut out = Placed::poisoned(&device, act, [count, width]);
    ops.gated_norm(&args, out.view_mut());
    let affine = weights.as_ref().map(Weights::row);
    let rule = NormRule { activates, affine, eps: EPS, form, extent };
    let mut want = vec![f32::NAN; count * width];
    let used = both.rows().enumerate().filter(|(row, _)| !picks || row % 3 != 1);
    for ((_, both), out) in used.zip(want.chunks_exact_mut(width)) {
        let (u, attention) = both.split_at(dim);
        gated_norm::reference::gated_norm(Rows { attention, u, out }, &rule);
    }
    let case = format!("{} {rows}x{dim}, {form:?}, {extent:?}", act.name());
    report.compare("gated_norm", case, limit(act), &out.to_numbers(), &want);
}
