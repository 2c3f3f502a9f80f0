//! Rows of a case, as column ranges of wider tensors where the ops compute.

use terrace_device::{DType, View, ViewMut};

use crate::conformance::numbers::rounded;
use crate::conformance::placed::Placed;
use crate::conformance::{Report, SplitMix};
use crate::ops::Ops;

/// What an op reads.
pub(super) struct CaseRows {
    placed: Placed,
    start: usize,
    pub width: usize,
    /// Row by row, without what lies between rows.
    pub numbers: Vec<f32>,
}

impl CaseRows {
    /// Between -1 and 1.
    pub fn random(ops: &Ops, random: &mut SplitMix, [rows, width]: [usize; 2]) -> Self {
        let numbers = random.numbers(rows * width);
        CaseRows::of(ops, random, numbers, width)
    }

    pub fn of(ops: &Ops, random: &mut SplitMix, numbers: Vec<f32>, width: usize) -> Self {
        CaseRows::between(ops, numbers, width, columns(random, width))
    }

    /// Where products want their input to lie.
    pub fn of_product(ops: &Ops, random: &mut SplitMix, numbers: Vec<f32>, width: usize) -> Self {
        let unit = if ops.product_multiple() == 1 { 1 } else { 8 };
        let (start, stride) = columns(random, width);
        let start = start.next_multiple_of(unit);
        let stride = stride.max(start + width).next_multiple_of(unit);
        CaseRows::between(ops, numbers, width, (start, stride))
    }

    fn between(
        ops: &Ops,
        numbers: Vec<f32>,
        width: usize,
        (start, stride): (usize, usize),
    ) -> Self {
        let numbers = rounded(numbers, ops.activation());
        let rows = numbers.len() / width;
        let mut wide = vec![f32::NAN; rows * stride];
        for (wide, row) in wide.chunks_exact_mut(stride).zip(numbers.chunks_exact(width)) {
            wide[start..start + width].copy_from_slice(row);
        }
        let placed = Placed::numbers(&ops.device(), ops.activation(), &wide, [rows, stride]);
        CaseRows { placed, start, width, numbers }
    }

    pub fn view(&self) -> View<'_> {
        self.placed.view().columns(self.start, self.width)
    }

    pub fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.numbers.chunks_exact(self.width)
    }
}

/// What an op writes.
pub(super) struct CaseOut {
    placed: Placed,
    dtype: DType,
    start: usize,
    stride: usize,
    shape: [usize; 2],
}

impl CaseOut {
    /// In the type of activations.
    pub fn new(ops: &Ops, random: &mut SplitMix, shape: [usize; 2]) -> Self {
        CaseOut::of_type(ops, random, shape, ops.activation())
    }

    /// In that type, or in f32.
    pub fn of_any_type(ops: &Ops, random: &mut SplitMix, shape: [usize; 2]) -> Self {
        let dtype = [ops.activation(), DType::F32][random.below(2)];
        CaseOut::of_type(ops, random, shape, dtype)
    }

    fn of_type(ops: &Ops, random: &mut SplitMix, [rows, width]: [usize; 2], dtype: DType) -> Self {
        let (start, stride) = columns(random, width);
        let placed = Placed::poisoned(&ops.device(), dtype, [rows, stride]);
        CaseOut { placed, dtype, start, stride, shape: [rows, width] }
    }

    pub fn view_mut(&mut self) -> ViewMut<'_> {
        let CaseOut { start, stride, shape: [_, width], .. } = *self;
        let [_, wanted, _] =
            self.placed.view_mut().split_columns([start, width, stride - start - width]);
        wanted
    }

    /// Compares what was written, and sees that nothing else was.
    pub fn compare(&self, report: &mut Report, op: &'static str, case: &str, want: &[f32]) {
        let CaseOut { start, stride, shape: [rows, width], .. } = *self;
        let numbers = self.placed.to_numbers();
        let mut got = Vec::with_capacity(rows * width);
        let mut is_clean = true;
        for row in numbers.chunks_exact(stride) {
            got.extend_from_slice(&row[start..start + width]);
            let beside = row[..start].iter().chain(&row[start + width..]);
            is_clean &= beside.into_iter().all(|number| number.is_nan());
        }
        let case = format!("{} {rows}x{width} of {stride}, {case}", self.dtype.name());
        report.compare_exactly(op, format!("beside {case}"), &[is_clean], &[true]);
        report.compare(op, case, limit(self.dtype), &got, want);
    }
}

fn limit(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 4e-6,
        DType::F16 => 1.0 / 512.0,
        _ => 1.0 / 128.0,
    }
}

/// Where the first column lies, and by how much rows are apart.
fn columns(random: &mut SplitMix, width: usize) -> (usize, usize) {
    let (start, after) = [(0, 0), (8, 8), (3, 2), (0, 5)][random.below(4)];
    (start, start + width + after)
}
